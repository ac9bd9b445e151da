package stream

import (
	"errors"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestValuesAreThoseOfOneType(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "values", 1))
	p := l.NewPublisher(PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Seal{Note: "first"}))
	must.Do(t, p.PublishBytes(t.Context(), schemas.Pairs, 0, schemas.SchemaPair, []byte("no pair")))
	must.Do(t, p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Seal{Note: "second"}))
	must.Do(t, p.Close(t.Context()))

	notes := ""
	for seal, err := range Values[*schemas.Seal](t.Context(), l, schemas.Pairs, 0) {
		must.Do(t, err)
		notes += seal.Note + " "
	}
	if notes != "first second " {
		t.Errorf("the seals are %q", notes)
	}
	for pair, err := range Values[*schemas.Pair](t.Context(), l, schemas.Pairs, 0) {
		if pair != nil || !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%v, %v: want the record that cannot be read", pair, err)
		}
	}
	notes = ""
	for rec, err := range l.Records(t.Context(), schemas.Pairs, 0, Position{}, -1) {
		must.Do(t, err)
		if _, ok := As[*schemas.Pair](rec); ok {
			t.Errorf("%q passes for a pair", rec.Value)
		}
		if seal, ok := As[*schemas.Seal](rec); ok {
			notes += seal.Note + " "
		}
	}
	if notes != "first second " {
		t.Errorf("the seals are %q", notes)
	}
}

// TestTheLastRecordIsOfItsType reads the final seal at the end of a lane, which tells a lane that waits that nothing
// comes.
func TestTheLastRecordIsOfItsType(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	p := l.NewPublisher(PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Seal{Final: true}))
	must.Do(t, p.Close(t.Context()))
	last, found, err := l.LastWhere(t.Context(), schemas.Pairs, 0, func(*Record) bool { return true })
	if seal, ok := As[*schemas.Seal](last); err != nil || !found || !ok || !seal.Final {
		t.Errorf("the last record has the schema %q (found: %t, %v)", last.Schema, found, err)
	}
}

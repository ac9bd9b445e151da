//go:build cgo

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestPace(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "1")
	t.Setenv("NAMESPACE", "slow")
	mustCommand(t, "topics", "create")
	one, two := writeTars(t, 4, 1), writeTars(t, 2, 1)

	began := time.Now()
	mustCommand(t, "produce", "--rate", "1000", one)
	if took := time.Since(began); took < 300*time.Millisecond*99/100 {
		t.Errorf("400 pairs at 1000/s took %s", took)
	}

	t.Setenv("NAMESPACE", "lagging") // nobody encodes there
	mustCommand(t, "topics", "create")
	log := openNamespace(t)
	p := start(t, "produce", "PRODUCE_ARGS=produce\n--max-lag\n250\n"+one)
	for inLog(t, log) < 250 {
		time.Sleep(time.Millisecond)
	}
	if p.kill(t); inLog(t, log) != 250 {
		t.Errorf("%d records without an encoder, want 250", inLog(t, log))
	}

	t.Setenv("NAMESPACE", "weighed")
	mustCommand(t, "topics", "create")
	mustCommand(t, "produce", "--weights", "2,1", one, two)
	lanes, _ := published(t, openNamespace(t))
	var order []string
	for _, value := range lanes[0] {
		r := must.Get(schemas.Unmarshal(schemas.SchemaPair, []byte(value)))(t)
		uri := r.(*schemas.Pair).Image.URI
		place := "b"
		if strings.Contains(uri, filepath.Base(filepath.Dir(one))+"/"+filepath.Base(one)) {
			place = "a"
		}
		order = append(order, place+filepath.Base(uri))
	}
	want := []string{"a00000.tar", "a00001.tar", "b00000.tar", "a00002.tar", "a00003.tar", "b00001.tar"}
	if got := slices.Compact(order); !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	for args, want := range map[string]string{"--rate -1": "--rate", "--max-lag -1": "--max-lag", "--weights 1,2": "--weights", "--weights 0": "--weights"} {
		if _, err := command(t, append([]string{"produce", one}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

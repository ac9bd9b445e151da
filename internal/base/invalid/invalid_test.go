package invalid_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

func TestList(t *testing.T) {
	var l invalid.List
	invalid.Within(&l, "Share", 0.0, 0, 1)
	invalid.Within(&l, "Share", 1.0, 0, 1)
	invalid.AtLeast(&l, "Workers", 1, 1)
	l.Want(true, "%s is wrong", invalid.Field("Nothing"))
	if err := l.Err(); err != nil {
		t.Fatalf("at their bounds: %v", err)
	}
	invalid.Within(&l, "Share", math.NaN(), 0, 1)
	invalid.Within(&l, "K", 11, 1, 10)
	invalid.AtLeast(&l, "Workers", 0, 1)
	l.Want(false, "%s (L) is %d, want a multiple of %s, %d", invalid.Field("Queue.Size"), 7, invalid.Field("Batch"), 2)
	want := "Share is NaN, want 0..1\nK is 11, want 1..10\nWorkers is 0, want at least 1\nQueue.Size (L) is 7, want a multiple of Batch, 2"
	if err := l.Err(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNamed(t *testing.T) {
	var l invalid.List
	l.Want(false, "%s is %q, want none with %s=true", invalid.Field("Kind"), "Kind", invalid.Field("Momentum.On"))
	var p *invalid.Problem
	if !errors.As(l.Err(), &p) {
		t.Fatalf("%v holds no problem", l.Err())
	}
	got := p.Named(func(f invalid.Field) string { return strings.ToUpper(strings.ReplaceAll(string(f), ".", "_")) })
	if want := `KIND is "Kind", want none with MOMENTUM_ON=true`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNumbered(t *testing.T) {
	for value, want := range map[string]float64{"drop:0.9": 0.9, "drop:8": 8, "count:-1": -1} {
		word, number, ok := invalid.Numbered(value, "count", "drop")
		if !ok || number != want || !strings.HasPrefix(value, word+":") {
			t.Errorf("%q: %q with %v, %t, want %v", value, word, number, ok, want)
		}
	}
	for _, value := range []string{"", ":", "drop", "drop:", "drop:x", ":0.9", "keep:0.9", "drop:0.9:1"} {
		if word, number, ok := invalid.Numbered(value, "count", "drop"); ok || word != value || number != 0 {
			t.Errorf("%q: %q with %v, %t, want it as it is", value, word, number, ok)
		}
	}
}

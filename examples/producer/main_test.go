package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/schemas"
)

const namespace = "examples"

// newLog starts an embedded broker with the topics of three lanes.
func newLog(t *testing.T) (*stream.Log, string) {
	t.Helper()
	broker := logtest.Broker(t)
	return logtest.Open(t, broker, namespace, 3), broker
}

// published returns the pairs of a lane.
func published(t *testing.T, log *stream.Log, lane int) (pairs []*schemas.Pair) {
	t.Helper()
	bounds, err := log.Bounds(t.Context(), schemas.Pairs, lane)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range log.Records(t.Context(), schemas.Pairs, lane, stream.Position{}, bounds.End) {
		if err != nil {
			t.Fatal(err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, value.(*schemas.Pair))
	}
	return pairs
}

func TestRunPublishesInlineAndByReference(t *testing.T) {
	log, addr := newLog(t)
	encoded := []byte("\xff\xd8 bytes of a JPEG file")
	file := filepath.Join(t.TempDir(), "cat.jpg")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, caption string
		args          []string
		want          func(*schemas.Pair) bool
	}{
		{"inline", "a cat – 猫", nil, func(p *schemas.Pair) bool { return bytes.Equal(p.Inline, encoded) && p.Image == nil }},
		{"by reference", "a cat", []string{"-uri", "s3://crawl/0.tar", "-offset", "1536"}, func(p *schemas.Pair) bool {
			return p.Inline == nil && p.Image != nil && *p.Image == schemas.ImageRef{URI: "s3://crawl/0.tar", Offset: 1536, Size: int64(len(encoded))}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"-broker", addr, "-namespace", namespace}, tt.args...)
			if err := run(t.Context(), append(args, file, tt.caption), &out); err != nil {
				t.Fatal(err)
			}
			id := schemas.NewPairID(schemas.NewImageID(encoded), tt.caption)
			if want := "published " + id.String() + "\n"; out.String() != want {
				t.Errorf("printed %q, want %q", out.String(), want)
			}
			lane := schemas.NewImageID(encoded).Lane(3)
			found := published(t, log, lane)
			if len(found) == 0 {
				t.Fatalf("lane %d holds no pair", lane)
			}
			if p := found[len(found)-1]; p.ID != id || p.Caption != tt.caption || !tt.want(p) {
				t.Errorf("published %+v", p)
			}
		})
	}
}

func TestPublishFindsEveryLane(t *testing.T) {
	log, addr := newLog(t)
	want := make([]map[schemas.PairID]bool, 3)
	for lane := range want {
		want[lane] = map[schemas.PairID]bool{}
	}
	var pairs []*schemas.Pair
	for i := range 40 {
		encoded := []byte{0xff, 0xd8, byte(i)}
		p := newPair(encoded, "a scene")
		p.Inline = encoded
		pairs = append(pairs, p)
		want[p.ImageID.Lane(3)][p.ID] = true
	}
	if err := publish(t.Context(), target{addr, namespace}, pairs...); err != nil {
		t.Fatal(err)
	}
	for lane := range want {
		found := published(t, log, lane)
		for _, p := range found {
			if !want[lane][p.ID] {
				t.Errorf("lane %d holds pair %s of lane %d", lane, p.ID, p.ImageID.Lane(3))
			}
		}
		if len(found) == 0 || len(found) != len(want[lane]) {
			t.Errorf("lane %d holds %d pairs, want %d", lane, len(found), len(want[lane]))
		}
	}
}

func TestRunRefuses(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no caption", []string{"cat.jpg"}, "want a file with an image, and a caption"},
		{"no file", []string{"missing.jpg", "a cat"}, "missing.jpg"},
		{"empty caption", []string{"main_test.go", ""}, "caption"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), tt.args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

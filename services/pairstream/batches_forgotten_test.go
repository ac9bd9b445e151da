//go:build cgo

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestForgottenStaysForgotten takes a picture back in one namespace. A namespace that is made later knows of it, and so
// do a plan and, when it is told, a namespace that was there before.
func TestForgottenStaysForgotten(t *testing.T) {
	if apart(t) {
		return
	}
	in := setUpPipeline(t, 8)
	t.Setenv("GRIT_FEATURES", "encoder")
	t.Setenv("EPOCHS", "1")
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	namespace := func(name string) *stream.Log {
		t.Helper()
		t.Setenv("NAMESPACE", name)
		return openNamespace(t)
	}
	takesBack := func(name string, image schemas.ImageID) bool {
		t.Helper()
		return must.Get(forget.Open(t.Context(), namespace(name)))(t).Image(image)
	}
	var pairs []*schemas.Pair
	for _, name := range []string{"before", "production"} {
		log := namespace(name)
		mustCommand(t, "produce", in("scenes"))
		for lane := range 2 {
			for p, err := range stream.Values[*schemas.Pair](t.Context(), log, schemas.Pairs, lane) {
				must.Do(t, err)
				pairs = append(pairs, p)
			}
		}
	}
	gone := pairs[0]
	forgetPair := func(p *schemas.Pair) string {
		t.Helper()
		list := in("names")
		takeBack(t, list, []schemas.PairID{p.ID})
		return mustCommand(t, "forget", "--pair", list)
	}
	namespace("production")
	if out := forgetPair(gone); !strings.Contains(out, `NAMESPACE=before pairstream forget --from "production" takes it back there`) {
		t.Errorf("forget prints\n%s", out)
	}
	namespace("second")
	mustCommand(t, "produce", in("scenes"))
	if !takesBack("second", gone.ImageID) || takesBack("before", gone.ImageID) {
		t.Error("a new namespace does not know what is forgotten, or an old one does")
	}
	if _, err := command(t, "forget", "--from", "nowhere"); err == nil || !strings.Contains(err.Error(), `--from is "nowhere", want another namespace of these brokers: ["production" "second"]`) {
		t.Errorf("from nowhere: error %v", err)
	}
	if out := mustCommand(t, "forget", "--from", "production"); !strings.HasPrefix(out, "took over ") || !takesBack("before", gone.ImageID) {
		t.Errorf("from production, it prints %s", out)
	}

	t.Setenv("NAMESPACE", "")
	mustCommand(t, "batches", "--out", in("plan"), in("scenes"))
	rows := planRows(t, in("plan"), readManifest(t, in("plan")).Files)
	for _, r := range rows {
		if strings.Contains(r.Text("uri"), "00000.tar") && slices.ContainsFunc(pairs, func(p *schemas.Pair) bool { return p.ImageID == gone.ImageID && p.ID.String() == r.Text("pair") }) {
			t.Errorf("the plan has the pair %s, which is forgotten", r.Text("pair"))
		}
	}
	if len(rows) == 0 || len(rows) >= len(pairs)/2 {
		t.Errorf("the plan has %d samples of %d", len(rows), len(pairs)/2)
	}
	if out := mustCommand(t, "batches", "--out", in("plan"), in("scenes")); !strings.Contains(out, "is complete") {
		t.Errorf("once more, it prints %s", out)
	}
	namespace("production")
	forgetPair(pairs[len(pairs)-1])
	if _, err := command(t, "batches", "--out", in("plan"), in("scenes")); err == nil || !strings.Contains(err.Error(), "other tombstones") {
		t.Errorf("a plan with images that are forgotten now: error %v", err)
	}
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:1")
	if _, err := command(t, "batches", "--out", in("other"), in("scenes")); err == nil || !strings.HasPrefix(err.Error(), "reading the tombstones of images, which a plan leaves out, from KAFKA_BROKERS or --data: ") {
		t.Errorf("without its log: error %v", err)
	}
}

//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// featureRow is a row of a file for --features.
type featureRow struct {
	Pair  string    `parquet:"pair"`
	Image []float32 `parquet:"image,list"`
	Text  []float32 `parquet:"text,list"`
}

// featuresInto writes what a trainer has published of an epoch, and returns the file.
func featuresInto(t *testing.T, log *stream.Log, epoch int32, path string) string {
	t.Helper()
	ids := map[string]string{} // of pairs, by group and position
	place := func(g schemas.GroupID, position int32) string { return fmt.Sprint(g, " ", position) }
	var rows []featureRow
	for lane := range log.Config().Lanes {
		for _, topic := range []schemas.Topic{schemas.Scored, schemas.Features} {
			for rec, err := range log.Records(t.Context(), topic, lane, stream.Position{}, -1) {
				must.Do(t, err)
				value := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
				switch r := value.(type) {
				case *schemas.ScoredBatch:
					for _, s := range r.Samples {
						ids[place(r.Group, s.Position)] = s.ID.String()
					}
				case *schemas.FeatureBlock:
					if r.Epoch != epoch {
						continue
					}
					d := int(r.Dim)
					for i, p := range r.Positions {
						rows = append(rows, featureRow{ids[place(r.Group, p)], r.V.Floats()[i*d : (i+1)*d], r.T.Floats()[i*d : (i+1)*d]})
					}
				}
			}
		}
	}
	slices.SortFunc(rows, func(a, b featureRow) int { return strings.Compare(a.Pair, b.Pair) })
	must.Do(t, parquet.WriteFile(path, rows))
	return path
}

// TestFeaturesFromOutsideCloseTheLoop gives a plan the features that a trainer had in a stream of the same pairs, epoch
// by epoch. The mini-batches are the stream's, however the runs are cut.
func TestFeaturesFromOutsideCloseTheLoop(t *testing.T) {
	for _, strategy := range []string{"grit", "jest:0.5"} {
		t.Run(strategy, func(t *testing.T) {
			if !apart(t) {
				closeTheLoop(t, strategy)
			}
		})
	}
}

func closeTheLoop(t *testing.T, strategy string) {
	in := setUpPipeline(t, 16)
	for name, value := range map[string]string{
		"KAFKA_BROKERS": startBroker(t), "NAMESPACE": "stream", "CHECKPOINT_DIR": in("checkpoints"), "GROUP_SIZE": "1000", "EPOCHS": "3", "GRIT_FEATURES": "training", "STRATEGY": strategy,
	} {
		t.Setenv(name, value)
	}
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	want := exported(t, in("streamed"), in("scenes"))
	log := openNamespace(t)
	first, second := featuresInto(t, log, 0, in("first.parquet")), featuresInto(t, log, 1, in("second.parquet"))

	plan := func(dir string, features ...string) string {
		args := []string{"batches", "--out", in(dir), in("scenes")}
		for _, f := range features {
			args = append(args, "--features", f)
		}
		return mustCommand(t, args...)
	}
	compare := func(dir string, epochs int) {
		t.Helper()
		got, err := filepath.Glob(filepath.Join(in(dir), "epoch-*.parquet"))
		if err != nil || len(got) != 2*epochs {
			t.Fatalf("%s has %q (%v), want %d epochs of 2 lanes", dir, got, err, epochs)
		}
		for name, content := range planIn(t, in(dir)) {
			if strings.HasPrefix(name, "epoch-") && !bytes.Equal(content, want[name]) {
				t.Errorf("%s of %s is another one than the stream's", name, dir)
			}
		}
	}
	for files := range 3 {
		out := plan("plan", []string{first, second}[:files]...)
		if more := strings.Contains(out, "plan the next with one --features more"); more != (files < 2) {
			t.Errorf("after epoch %d: %s", files, out)
		}
		if files < 2 { // without the log, as filesIn reads files alone
			if names, _ := filepath.Glob(in("plan/epoch-*.parquet")); len(names) != 2*(files+1) {
				t.Errorf("%q after epoch %d", names, files)
			}
		}
	}
	compare("plan", 3)
	plan("at-once", first, second)
	compare("at-once", 3)
	samePlan(t, "made at once", planIn(t, in("at-once")), planIn(t, in("plan")))
	if names := slices.Sorted(maps.Keys(planIn(t, in("plan")))); len(names) != 7 {
		t.Errorf("the plan has %q", names)
	}
	for _, tt := range []struct{ want, dir, set, features string }{
		{"another folder", "plan", "", second},
		{"have no effect", "else", "STRATEGY=random", first},
		{"has no features of pair", "else", "", in("none.parquet")},
		{"must go through their epochs together", "else", "GROUP_SIZE=8", first},
	} {
		must.Do(t, parquet.WriteFile(in("none.parquet"), []featureRow{{"x", []float32{1}, []float32{1}}}))
		t.Run(tt.want, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.set, "="); ok {
				t.Setenv(name, value)
			}
			_, err := command(t, "batches", "--out", in(tt.dir+tt.set), in("scenes"), "--features", tt.features)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

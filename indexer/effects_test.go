package indexer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
)

// columns returns the parts of a group's records.
func columns(g *indexer.Group) map[string]string {
	out := map[string]string{"nouns": fmt.Sprint(g.Manifest.Nouns)}
	for _, c := range g.Chunks {
		out["v2t"] += fmt.Sprint(c.V2T)
		out["se"] += fmt.Sprint(c.SE)
		out["cluster"] += fmt.Sprint(c.Cluster)
		for i := range c.Members() {
			for _, place := range c.Objects(i) {
				out["objects"] += g.Manifest.Nouns[place] + " "
			}
			out["objects"] += "\n"
		}
	}
	return out
}

// Every setting changes what it is about, and nothing else of the same group.
func TestOptionsChangeWhatTheyShould(t *testing.T) {
	base := options()
	base.K2, base.MinCount = 30, 40
	for _, c := range []struct {
		name   string
		change func(*indexer.Options)
		want   string
	}{
		{"k", func(o *indexer.Options) { o.K = 4 }, "v2t objects"},
		{"k1", func(o *indexer.Options) { o.K1 = 2 }, "se"},
		{"k2", func(o *indexer.Options) { o.K2 = 5 }, "se"},
		{"same image", func(o *indexer.Options) { o.KeepSameImage = true }, "se"},
		{"K", func(o *indexer.Options) { o.Clusters = 5 }, "cluster"},
		{"iterations", func(o *indexer.Options) { o.Iterations = 1 }, "cluster"},
		{"modality", func(o *indexer.Options) { o.Modality = indexer.Text }, "cluster"},
		{"seed", func(o *indexer.Options) { o.Seed++ }, "cluster"},
		{"p", func(o *indexer.Options) { o.P = 0.8 }, "objects"},
		{"least count of a noun", func(o *indexer.Options) { o.MinCount = 80 }, "objects nouns"},
		{"threads", func(o *indexer.Options) { o.Threads = 3 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := base
			c.change(&changed)
			pairs := lane(4, 300, 2)
			before, after := columns(build(t, base, cpu.Engine{}, pairs)), columns(build(t, changed, cpu.Engine{}, pairs))
			var parts []string
			for _, part := range []string{"v2t", "se", "cluster", "objects", "nouns"} {
				if before[part] != after[part] {
					parts = append(parts, part)
				}
			}
			if got := strings.Join(parts, " "); got != c.want {
				t.Errorf("it changed %q, want %q", got, c.want)
			}
		})
	}
}

package service

import (
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/process/config"
)

func TestDefaults(t *testing.T) {
	s, err := config.Parse[Settings](map[string]string{"SEED": "7"})
	want, live := indexer.DefaultOptions(), indexer.DefaultLiveOptions()
	want.Seed, live.Seed = 7, 7
	if err != nil || s.Options() != want || s.LiveOptions() != live {
		t.Errorf("%v; the settings give %+v and %+v, want %+v and %+v", err, s.Options(), s.LiveOptions(), want, live)
	}
}

// Whoever sets variables reads their names, not those of fields.
func TestProblemsNameVariables(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		"GROUP_SIZE is 0, want 1..100000000":                          {"GROUP_SIZE": "0"},
		"NEIGHBORS_K is 0, want 1..1000":                              {"NEIGHBORS_K": "0"},
		"NEIGHBORS_K1 is -1, want 1..1000":                            {"NEIGHBORS_K1": "-1"},
		"NEIGHBORS_K2 is 0, want 1..100000000":                        {"NEIGHBORS_K2": "0"},
		"CLUSTERS is 0, want 1..1000000":                              {"CLUSTERS": "0"},
		`DEDUPE_NEAR is "near", want "count" or "drop"`:               {"DEDUPE_NEAR": "near"},
		`DEDUPE_NEAR is "keep:0.9", want "count" or "drop"`:           {"DEDUPE_NEAR": "keep:0.9"},
		"DEDUPE_NEAR is drop:1, want a cosine above 0 and below 1":    {"DEDUPE_NEAR": "drop:1"},
		"DEDUPE_NEAR is count:NaN, want a cosine above 0 and below 1": {"DEDUPE_NEAR": "count:NaN"},
		"NEIGHBORS_SCOPE is lane:0, want 1 to 1000 groups":            {"NEIGHBORS_SCOPE": "lane:0", "SEGMENTS_ROOT": "x"},
		`NEIGHBORS_SCOPE is "lane:1.5", want "lane" or "crawl"`:       {"NEIGHBORS_SCOPE": "lane:1.5", "SEGMENTS_ROOT": "x"},
		"OBJECT_SHARE is NaN, want 0..1":                              {"OBJECT_SHARE": "NaN"},
		"NOUN_MIN_COUNT is -1, want 0..2147483647":                    {"NOUN_MIN_COUNT": "-1"},
	} {
		if _, err := config.Parse[Settings](environ); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", environ, err, want)
		}
	}
}

package service

import (
	"runtime"
	"testing"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/process/config"
)

func TestDefaults(t *testing.T) {
	s, err := config.Parse[Settings](map[string]string{"SEED": "7"})
	want := grouper.Defaults()
	want.Seed, want.Workers = 7, runtime.GOMAXPROCS(0)
	if err != nil || s.Options() != want {
		t.Errorf("%v; the settings give %+v, want %+v", err, s.Options(), want)
	}
}

// Whoever sets variables reads their names, not those of fields.
func TestProblemsNameVariables(t *testing.T) {
	for want, environ := range map[string]map[string]string{
		`STRATEGY is "gnp", want random, grit, gns, jest, jest:F with a filter ratio above 0 and below 1, b3 or b3:P with 1 or more ranks`: {"STRATEGY": "gnp"},
		"STRATEGY is jest:1.5, want a filter ratio above 0 and below 1":                                                                    {"STRATEGY": "jest:1.5"},
		"EPOCHS is 0, want at least 1":                                                   {"EPOCHS": "0"},
		"BATCH_SIZE (N) is 65537, want 1..65536":                                         {"BATCH_SIZE": "65537", "STRATEGY": "random"},
		"CANDIDATES (m) is 96, want 0..95, one less than BATCH_SIZE":                     {"CANDIDATES": "96"},
		`TEXTS is "some", want curriculum, curriculum:N, share:N, all or none`:           {"TEXTS": "some"},
		`TEXTS is "share:", want curriculum, curriculum:N, share:N, all or none`:         {"TEXTS": "share:"},
		`TEXTS is "all:0.5", want curriculum, curriculum:N, share:N, all or none`:        {"TEXTS": "all:0.5"},
		`TEXTS is "curriculum:4.5", want curriculum, curriculum:N, share:N, all or none`: {"TEXTS": "curriculum:4.5"},
		"TEXTS is share:1.01, want a share of 0..1":                                      {"TEXTS": "share:1.01"},
		"TEXTS is share:NaN, want a share of 0..1":                                       {"TEXTS": "share:NaN"},
		"TEXTS is curriculum over 3 epochs, want at least 4: take TEXTS=curriculum:4 or more, which counts the epochs of all groups of a lane, or TEXTS=none": {"TEXTS": "curriculum:3"},
		"EPOCH_GROUPS is -1, want at least 0":                                                    {"EPOCH_GROUPS": "-1"},
		`GRIT_FEATURES is "momentum", want training, encoder, current or unshuffled`:             {"GRIT_FEATURES": "momentum"},
		"QUEUE_SIZE (L) is 5000, want a multiple of SEARCH_SPACE, 4800":                          {"QUEUE_SIZE": "5000"},
		"SEARCH_SPACE (M) is 4000, want a multiple of BATCH_SIZE, 96":                            {"SEARCH_SPACE": "4000"},
		"QUEUE_SIZE (L) is 1000, want a multiple of BATCH_SIZE, 96":                              {"QUEUE_SIZE": "1000", "SEARCH_SPACE": "0"},
		"GNS_CLUSTERS (c) is 0, want at least 1":                                                 {"STRATEGY": "gns", "GNS_CLUSTERS": "0"},
		"GNS_PER_CLUSTER (s) is 1, want at least 2":                                              {"STRATEGY": "gns", "GNS_PER_CLUSTER": "1"},
		"GNS_CLUSTERS (c) is 33 and GNS_PER_CLUSTER (s) 3, want c * s of at most BATCH_SIZE, 96": {"STRATEGY": "gns", "GNS_CLUSTERS": "33"},
	} {
		if _, err := config.Parse[Settings](environ); err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %s", environ, err, want)
		}
	}
}

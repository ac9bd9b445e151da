package config

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestTellRemoved(t *testing.T) {
	const (
		lines = "STREAM_SESSION_TIMEOUT, at least 10s; take it out"
		moved = "KAFKA_RETENTION_TOPICS=batches=168h has no effect, the setting was removed: KAFKA_RETENTION takes both, such as KAFKA_RETENTION=0s,batches=168h; take it out"
	)
	tests := map[string]struct {
		environ  map[string]string
		told     string // the beginning of the only line; empty: none
		problems string
	}{
		"nothing set":                 {environ: nil},
		"set to nothing":              {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "", "KAFKA_RETENTION_TOPICS": ""}},
		"other settings":              {environ: map[string]string{"STREAM_SESSION_TIMEOUT": "20s", "PATH": "/bin"}},
		"what holds anyway":           {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "10s"}},
		"what holds, in other words":  {environ: map[string]string{"STREAM_STALL_AFTER": "600s", "STREAM_BATCH_BYTES": "786432.0"}},
		"another value":               {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "30s"}, told: "STREAM_REQUEST_TIMEOUT=30s has no effect, the setting was removed: " + lines},
		"no value at all":             {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "soon"}, told: "STREAM_REQUEST_TIMEOUT=soon has no effect"},
		"a value with a password":     {environ: map[string]string{"STREAM_LINGER": "http://u:hunter2@h\x1b"}, told: "STREAM_LINGER=http://***@h"},
		"what decides about deletion": {environ: map[string]string{"KAFKA_RETENTION_TOPICS": "batches=168h"}, problems: moved},
		"both": {
			environ: map[string]string{"KAFKA_RETENTION_TOPICS": "batches=168h", "STREAM_REQUEST_TIMEOUT": "30s"},
			told:    "STREAM_REQUEST_TIMEOUT=30s has no effect", problems: moved,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := TellRemoved(&out, tt.environ)
			if got := out.String(); !strings.HasPrefix(got, tt.told) || tt.told == "" && got != "" || strings.Count(got, "\n") > 1 || strings.ContainsAny(got, "\x1b") {
				t.Errorf("told %q, want one line that begins with %q", got, tt.told)
			}
			if text := errorText(err); text != tt.problems {
				t.Errorf("error %q, want %q", text, tt.problems)
			}
		})
	}
}

// TestMergedSettings gives a start what an earlier build had in two settings. It refuses what would change records and
// says what to set, tells of what never had an effect, and passes over what holds.
func TestMergedSettings(t *testing.T) {
	const told = "told"
	for _, row := range []struct {
		environ string
		says    string // what to set; empty: nothing is wrong
	}{
		{"EPOCH_ORDER=lane EPOCH_GROUPS=8", ""},
		{"EPOCH_ORDER=group", ""},
		{"EPOCH_ORDER=lane", ""}, // of one group
		{"EPOCH_ORDER=group EPOCH_GROUPS=8", "EPOCH_GROUPS=1"},
		{"TEXTS=share TEXT_SHARE=0.3", "TEXTS=share:0.3"},
		{"TEXTS=all TEXT_SHARE=0.3", told},
		{"TEXT_SHARE=0", told},
		{"TEXTS=curriculum CURRICULUM_EPOCHS=30", "TEXTS=curriculum:30"},
		{"RECIPE=gpn-s EPOCHS=1 CURRICULUM_EPOCHS=30", "TEXTS=curriculum:30"},
		{"RECIPE=mafa CURRICULUM_EPOCHS=30", told},
		{"TEXTS=curriculum CURRICULUM_EPOCHS=0", told},
		{"DEDUPE_NEAR=drop DEDUPE_NEAR_COSINE=0.9", "DEDUPE_NEAR=drop:0.9"},
		{"DEDUPE_NEAR=drop:0.9 DEDUPE_NEAR_COSINE=0.9", told},
		{"DEDUPE_NEAR_COSINE=0.9", told},
		{"NEIGHBORS_SCOPE=lane NEIGHBORS_GROUPS=4", "NEIGHBORS_SCOPE=lane:4"},
		{"NEIGHBORS_SCOPE=group NEIGHBORS_GROUPS=4", told},
		{"AUGMENT_LEVEL=9", "AUGMENT_OPS=2,9"},
		{"AUGMENT_OPS=1 AUGMENT_LEVEL=9", "AUGMENT_OPS=1,9"},
		{"AUGMENT_OPS=1,9 AUGMENT_LEVEL=9", ""},
		{"AUGMENT_LEVEL=7", ""},
		{"COND_THRESHOLD=auto", "COND_MIN_PRECISION=auto:0.4"},
		{"COND_THRESHOLD=0.93", "ECM_HIGH=0.93"},
		{"COND_THRESHOLD=0.93 ECM_HIGH=0.93", ""},
		{"ENCODER_MERGES=bpe.gz", "ENCODER_VOCAB=bpe.gz"},
		{"ENCODER_MERGES=bpe.gz ENCODER_VOCAB=bpe.gz", ""},
		{"MOMENTUM=true", "MOMENTUM_DECAY=0.995"},
		{"MOMENTUM=true MOMENTUM_DECAY=0.9", ""},
		{"MOMENTUM=true RECIPE=albef", ""},
		{"MOMENTUM=false", ""},
		{"MOMENTUM=false RECIPE=albef", "MOMENTUM_DECAY=0"},
		{"ECM_ITC=false ECM_MLM=false", "ECM_LOSSES=itm"},
		{"ECM_ITC=false ECM_ITM=0 ECM_MLM=false", "ECM_LOSSES=none"},
		{"ECM_ITC=true", ""},
		{"ADAMW_BETA2=0.98", "ADAMW=0.9,0.98,1e-8"},
		{"ADAMW_EPS=1e-8", ""},
		{"LR_SCHEDULE=reference LR_EPOCH_STEPS=1000", "LR_TOTAL_STEPS=30000"},
		{"LR_SCHEDULE=reference LR_EPOCH_STEPS=1000 LR_EPOCHS=30 LR_TOTAL_STEPS=30000", ""},
		{"LR_EPOCH_STEPS=1000", told},
	} {
		environ := fields(row.environ)
		var out bytes.Buffer
		err := TellRemoved(&out, environ)
		fine := err == nil && (out.Len() > 0) == (row.says == told)
		if row.says != "" && row.says != told {
			fine = out.Len() == 0 && err != nil && strings.Contains(err.Error(), "; set "+row.says+"; take it out")
		}
		if !fine {
			t.Errorf("%s: told %q, error %v, want one that says to set %q", row.environ, out.String(), err, row.says)
		}
	}
}

// TestRenewed reads the settings of an earlier build's run, which has all of them, in the words of this build.
func TestRenewed(t *testing.T) {
	for was, is := range map[string]string{
		"EPOCH_ORDER=group EPOCH_GROUPS=8":                      "EPOCH_GROUPS=1",
		"EPOCH_ORDER=lane EPOCH_GROUPS=8":                       "EPOCH_GROUPS=8",
		"TEXTS=none TEXT_SHARE=0 CURRICULUM_EPOCHS=0":           "TEXTS=none",
		"TEXTS=share TEXT_SHARE=0.3 CURRICULUM_EPOCHS=5":        "TEXTS=share:0.3",
		"TEXTS=curriculum TEXT_SHARE=0 CURRICULUM_EPOCHS=5":     "TEXTS=curriculum:5",
		"TEXTS=curriculum TEXT_SHARE=0 CURRICULUM_EPOCHS=0":     "TEXTS=curriculum",
		"DEDUPE_NEAR=keep DEDUPE_NEAR_COSINE=0.95":              "DEDUPE_NEAR=keep",
		"DEDUPE_NEAR=count DEDUPE_NEAR_COSINE=0.9":              "DEDUPE_NEAR=count:0.9",
		"NEIGHBORS_SCOPE=crawl NEIGHBORS_GROUPS=8":              "NEIGHBORS_SCOPE=crawl:8",
		"NEIGHBORS_SCOPE=group NEIGHBORS_GROUPS=8 LOSS_TRIES=5": "NEIGHBORS_SCOPE=group LOSS_TRIES=5",
	} {
		if got := Renewed(fields(was)); !maps.Equal(got, fields(is)) {
			t.Errorf("%s: %v, want %s", was, got, is)
		}
	}
}

// fields reads NAME=VALUE NAME=VALUE.
func fields(text string) map[string]string {
	out := map[string]string{}
	for f := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(f, "=")
		out[name] = value
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRemovedSettingsStandNowhere looks for them where people read what they may set.
func TestRemovedSettingsStandNowhere(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	names := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(removals)), "|") + `)\b`)
	looked := 0
	for _, place := range []string{"README.md", "docs", "deploy", "examples", "Makefile", "lab/experiments", "clients/python/README.md", "clients/python/src", "clients/python/examples"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, place), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			if found := names.FindString(string(raw)); found != "" {
				t.Errorf("%s names %s, which was removed", path, found)
			}
			return nil
		}))
	}
	if looked < 100 {
		t.Errorf("looked into %d files only", looked)
	}
}

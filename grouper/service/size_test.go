package service

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

// TestBatchesThatNoTopicTakesAreRefused reads the settings as the grouper's process does.
func TestBatchesThatNoTopicTakesAreRefused(t *testing.T) {
	exact := Settings{Core: grouper.Options{BatchSize: 100, Candidates: 99}}.Options().LargestRecord()
	for name, test := range map[string]struct {
		batch, candidates int
		limit             int64 // 0: the default
		refused           bool
	}{
		"the defaults":       {96, 2, 0, false},
		"GPN-S":              {512, 2, 0, false},
		"a thousand":         {1024, 2, 0, false},
		"all others of 4096": {4096, 4095, 0, true},
		"the most samples":   {65_536, 2, 0, true},
		"exactly":            {100, 99, exact, false},
		"a byte too many":    {100, 99, exact - 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{
				"KAFKA_BROKERS": "localhost:9092", "STRATEGY": "random", "BATCH_SIZE": strconv.Itoa(test.batch), "CANDIDATES": strconv.Itoa(test.candidates),
			}
			if test.limit > 0 {
				env["KAFKA_MAX_MESSAGE_BYTES"] = strconv.FormatInt(test.limit, 10)
			}
			_, err := config.Parse[service.Config[Settings]](env)
			switch {
			case !test.refused && err != nil:
				t.Error(err)
			case test.refused && (err == nil || !strings.Contains(err.Error(), "BATCH_SIZE") || !strings.Contains(err.Error(), "KAFKA_MAX_MESSAGE_BYTES")):
				t.Errorf("got %v, want an error that names both settings", err)
			}
		})
	}
}

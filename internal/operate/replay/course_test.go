package replay

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/schemas"
)

// TestDescribeTellsWhatCame describes a run with mini-batches, reports and a record that nobody can read. Its manifest
// keeps the course, with every list of numbers on one line.
func TestDescribeTellsWhatCame(t *testing.T) {
	log := openLog(t, logtest.Broker(t), "production")
	must.Get(runlog.Write(t.Context(), log, runlog.Options{Pairs: 40, Batch: 8, Epochs: 2, NoImages: true}))(t)
	newer := kafkatest.Message{Topic: schemas.ProgressLog.Name("production"), Value: []byte{0x80}, Headers: []kafkatest.MessageHeader{
		{Key: schemas.HeaderSchema, Value: []byte("pairstream.progress/2")},
	}}
	must.Do(t, kafkatest.WriteMessage(t.Context(), log.Config().Brokers, newer))
	all, err := Describe(t.Context(), log, DescribeOptions{Open: true, Settings: map[string]string{"ECM_HIGH": "1", "ECM_LOW": "0"}})
	must.Do(t, err)
	c := all.Course
	if len(c.Mined) != 2 || c.Mined[0].Strategy != schemas.StrategyRandom || c.Mined[1].Batches != 5 || c.Mined[1].Candidates != 5*8*4 || c.Mined[1].Connections != 0 || c.Mined[1].Ambiguous != 5*8*4 {
		t.Errorf("mined %+v, want two epochs, and no candidate above a threshold of 1", c.Mined)
	}
	if c.Steps != 9 || c.Unread != 1 || c.Last["loss"] != 2.54237 || len(c.Evaluations) != 1 || c.Evaluations[0].Values["tr_r1"] != 35 {
		t.Errorf("course %+v, want 9 steps, one unread record, the loss of the last one, and the evaluation", c)
	}
	if c.Pairs.Published != 40 || all.Models[1] != (Model{schemas.Scored, "c0de00000000c0de"}) {
		t.Errorf("pairs %+v, models %+v", c.Pairs, all.Models)
	}
	path := filepath.Join(t.TempDir(), "run.json")
	must.Do(t, atomicfile.Write(path, 0o600, all.Write))
	got, err := ReadManifest(path)
	must.Do(t, err)
	if !reflect.DeepEqual(got.Course, all.Course) {
		t.Errorf("read %+v, want %+v", got.Course, all.Course)
	}
	var text bytes.Buffer
	must.Do(t, all.Write(&text))
	if !strings.Contains(text.String(), `"steps": [0,1,2,3,4,5,6,7,8,9]`) {
		t.Errorf("the manifest is\n%s\nwant the steps of a curve on one line", &text)
	}
	if _, err := Describe(t.Context(), log, DescribeOptions{Open: true, Settings: map[string]string{"ECM_HIGH": "much"}}); err == nil || !strings.Contains(err.Error(), `ECM_HIGH is "much", want a probability`) {
		t.Errorf("error %v", err)
	}
	if again, err := Describe(t.Context(), log, DescribeOptions{Open: true}); err != nil || again.Course.Mined[1].Connections == 0 || again.Topics[0].Lanes[0] != all.Topics[0].Lanes[0] {
		t.Errorf("by MAFA's thresholds: %+v, %v", again.Course, err)
	}
}

// TestManifestsAreRuns: other lanes are other records, and an old manifest has no course.
func TestManifestsAreRuns(t *testing.T) {
	m, other := exampleManifest(), exampleManifest()
	other.Topics[0].Lanes[0].Digest = strings.Repeat("0", 64)
	other.Topics[1].Lanes[0].Records++
	a, b := m.Run("a"), other.Run("b")
	if a.Topics[0].Name != "pairs" || a.Topics[0] != b.Topics[0] || a.Topics[1].Records != 3 || a.Topics[1] == b.Topics[1] || a.Topics[2] == b.Topics[2] {
		t.Errorf("topics\n%+v\nand\n%+v", a.Topics, b.Topics)
	}
	if a.Course != nil || a.Models[0].Value != "m1" || a.Settings["SEED"] != "7" {
		t.Errorf("run %+v", a)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// command runs pairstream in this process and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func mustCommand(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t, args...)
	if err != nil {
		t.Fatalf("pairstream %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// testLog starts a broker for the commands of a test. Lane 0 has three pairs, two of them set aside. Lane 1 has ended
// with one set aside.
func testLog(t *testing.T) *stream.Log {
	t.Helper()
	t.Setenv("KAFKA_BROKERS", logtest.Broker(t))
	t.Setenv("NAMESPACE", "")
	t.Setenv("LANES", "2")
	t.Setenv("GROUP_SIZE", "50")
	mustCommand(t, "topics", "create")
	log := must.Get(rundir.Connect(t.Context()))(t)
	t.Cleanup(log.Close)
	p := log.NewPublisher(stream.PublisherOptions{})
	for lane, values := range [][]string{{"a", "b", "c"}, {"d"}} {
		for _, v := range values {
			must.Do(t, p.PublishBytes(t.Context(), schemas.Pairs, lane, schemas.SchemaPair, []byte(v)))
		}
	}
	must.Do(t, p.Flush(t.Context()))
	mustCommand(t, "seal", "--lane", "1", "--final")
	reasons := map[string]string{"a": "image missing: 1.tar", "c": "not msgpack", "d": "image missing: 2.tar"}
	for lane := range 2 {
		for rec, err := range log.Records(t.Context(), schemas.Pairs, lane, stream.Position{}, -1) {
			must.Do(t, err)
			if reason := reasons[string(rec.Value)]; reason != "" {
				must.Do(t, p.DeadLetter(t.Context(), "encoder", rec, reason))
			}
		}
	}
	must.Do(t, p.Close(t.Context()))
	return log
}

func TestStatusCommand(t *testing.T) {
	testLog(t)
	out := mustCommand(t, "status")
	for _, want := range []string{"default namespace, 2 lanes", "encoder", "image missing", "records  set aside by"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	var s inspect.Status
	must.Do(t, json.Unmarshal([]byte(mustCommand(t, "status", "--json")), &s))
	if len(s.Lanes) != 2 || s.Lanes[0].Lag["encoder"] != 3 || s.Lanes[1].State != inspect.StateEnded || s.Lanes[0].Group.Size != 50 {
		t.Errorf("status %+v", s)
	}
	t.Setenv("LANES", "3")
	if _, err := command(t, "status"); err == nil || !strings.Contains(err.Error(), "topic pairs has 2 partitions: LANES=3 wants 3") {
		t.Errorf("error %v", err)
	}
	t.Setenv("LANES", "2")
	t.Setenv("NAMESPACE", "elsewhere")
	want := "topic elsewhere.pairs does not exist (NAMESPACE=elsewhere), nor do 10 others: name the namespace of a run, or make its topics with `pairstream topics create`"
	if _, err := command(t, "status"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestDeadLettersCommands(t *testing.T) {
	log := testLog(t)
	for _, tt := range []struct {
		args, want, not string
	}{
		{"list", "pairs/1/0", "more"},
		{"list --reason missing", "pairs/0/0", "pairs/0/2"},
		{"list --stage trainer", "no dead letters", "pairs"},
		{"list --limit 1", "and 2 more", "pairs/0/2"},
		{"list --json --limit 1", `"offset":0`, `"offset":2`},
		{"show 1", "reason       not msgpack", "image missing"},
		{"show 1 --json", `"number": 1`, "image missing"},
		{"show 1 --raw", "c", "not msgpack"},
		{"replay --all --dry-run", "would put back 2\n1 cannot be put back; the last of them: dead letter 2 cannot be put back: lane 1 has ended", ""},
		{"replay 1", "put back 1\n", "cannot"},
		{"replay --reason missing", "put back 1\n1 cannot be put back", ""},
		{"replay --all", "put back 0\n3 cannot be put back", ""},
		{"replay --reason missing", "put back 0\n2 cannot be put back", ""},
	} {
		out := mustCommand(t, append([]string{"dead-letters"}, strings.Fields(tt.args)...)...)
		if !strings.Contains(out, tt.want) || tt.not != "" && strings.Contains(out, tt.not) {
			t.Errorf("dead-letters %s prints\n%s\nwant %q in it and not %q", tt.args, out, tt.want, tt.not)
		}
	}
	var values []string
	for rec, err := range log.Records(t.Context(), schemas.Pairs, 0, stream.Position{}, -1) {
		if err != nil || rec.Schema != schemas.SchemaPair {
			t.Fatalf("record %+v, %v", rec, err)
		}
		values = append(values, string(rec.Value))
	}
	if got := strings.Join(values, ""); got != "abcca" {
		t.Errorf("lane 0 holds %s, want the pairs that were put back behind the others: abcca", got)
	}
	for args, want := range map[string]string{
		"show 9":           "there is no dead letter 9; `pairstream dead-letters list` shows the numbers",
		"show x":           "\"x\" is not the number of a dead letter; `pairstream dead-letters list` shows the numbers",
		"replay":           "give either numbers, or --reason, --stage or --all",
		"replay 1 --all":   "give either numbers, or --reason, --stage or --all",
		"replay 0 2":       "dead letter 2 cannot be put back: lane 1 has ended with a final seal",
		"replay 0 nothing": "\"nothing\" is not the number of a dead letter; `pairstream dead-letters list` shows the numbers",
	} {
		if _, err := command(t, append([]string{"dead-letters"}, strings.Fields(args)...)...); err == nil || err.Error() != want {
			t.Errorf("dead-letters %s: error %v, want %q", args, err, want)
		}
	}
	if b, err := log.Bounds(t.Context(), schemas.Pairs, 0); err != nil || b.End != 5 {
		t.Errorf("lane 0 ends at %d, %v: a command that failed has put something back", b.End, err)
	}
}

func TestCommandsFindTheLogOfUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KAFKA_BROKERS", "")
	_, err := command(t, "status", "--data", dir)
	if rundir.Listens(t.Context(), rundir.DefaultBroker) {
		t.Skip("a broker runs on this machine already")
	}
	if err == nil || !strings.Contains(err.Error(), "there is no log in "+dir) {
		t.Errorf("error %v", err)
	}
	broker := must.Get(broker.Start(broker.Options{DataDir: dir + "/broker"}))(t)
	t.Setenv("NAMESPACE", "left")
	t.Setenv("LANES", "1")
	t.Setenv("KAFKA_BROKERS", broker.Addr())
	mustCommand(t, "topics", "create")
	must.Do(t, broker.Close())
	t.Setenv("KAFKA_BROKERS", "")
	if out := mustCommand(t, "status", "--data", dir); !strings.Contains(out, "left, 1 lane") {
		t.Errorf("status prints\n%s", out)
	}
	if _, err := command(t, "status", "--data", dir+"/broker"); err == nil || !strings.Contains(err.Error(), "--data wants the folder above "+dir+"/broker") {
		t.Errorf("the log's own folder: error %v", err)
	}
}

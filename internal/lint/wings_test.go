package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// wings maps each wing of internal to the wings that it imports. The order is that of docs/architecture.md: a wing
// imports only wings that stand above it in this list, so the wings form no circle.
var wings = []struct {
	name    string
	imports []string
}{
	{"base", nil},
	{"content", []string{"base"}},
	{"log", []string{"base"}},
	{"process", []string{"base", "log"}},
	{"crawl", []string{"base", "content", "log", "process"}},
	{"model", []string{"base", "content", "crawl", "log", "process"}},
	{"neighbors", []string{"base", "crawl", "log", "model"}},
	{"demo", []string{"base", "crawl"}},
	{"operate", []string{"base", "content", "crawl", "demo", "log", "model", "neighbors", "process"}},
}

// notWings are the folders of internal that no program imports.
var notWings = []string{"lint", "testing"}

// wingOf returns the wing of a folder, or "" if the folder lies in none.
func wingOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	wing, _, _ := strings.Cut(rest, "/")
	if slices.Contains(notWings, wing) {
		return ""
	}
	return wing
}

// wingArrows returns the imports between wings, without tests: wing, imported wing, one import as an example.
func (r *repository) wingArrows() map[string]map[string]string {
	out := map[string]map[string]string{}
	for dir, p := range r.pkgs {
		from := wingOf(dir)
		if from == "" {
			continue
		}
		if out[from] == nil {
			out[from] = map[string]string{}
		}
		for i, file := range p.imports() {
			local, ok := r.local(i)
			if to := wingOf(local); ok && to != "" && to != from {
				out[from][to] = fmt.Sprintf("%s imports %s", file, local)
			}
		}
	}
	return out
}

func TestWingsImportOneWay(t *testing.T) {
	arrows := load(t).wingArrows()
	var listed []string
	for _, w := range wings {
		for _, to := range w.imports {
			if !slices.Contains(listed, to) {
				t.Errorf("wing %s imports %s, which does not stand above it in the list", w.name, to)
			}
			if arrows[w.name][to] == "" {
				t.Errorf("wing %s no longer imports %s: remove it from the list", w.name, to)
			}
		}
		for to, example := range arrows[w.name] {
			if !slices.Contains(w.imports, to) {
				t.Errorf("wing %s imports wing %s: %s", w.name, to, example)
			}
		}
		listed = append(listed, w.name)
	}
	if found := slices.Sorted(maps.Keys(arrows)); !slices.Equal(found, slices.Sorted(slices.Values(listed))) {
		t.Errorf("internal has the wings %q, want %q", found, listed)
	}
}

// rooms are the packages of internal/log below which the log has no others, each with those that it imports. A room
// imports only rooms that stand above it. stream speaks to the brokers through kafka alone, and names no client
// library.
var rooms = []struct {
	dir     string
	imports []string
	client  bool // speaks Kafka's protocol
}{
	{"internal/log/broker", nil, true},
	{"internal/log/kafka", []string{"internal/log/broker"}, true},
	{"internal/log/stream", []string{"internal/log/kafka"}, false},
}

// roomProblems lists what breaks the rules of rooms, without tests.
func (r *repository) roomProblems() []string {
	var problems, listed []string
	for _, room := range rooms {
		p := r.pkgs[room.dir]
		if p == nil {
			return append(problems, room.dir+" has no Go files: where is this room of the log?")
		}
		var found []string
		client := ""
		for i, file := range p.imports() {
			local, ok := r.local(i)
			for _, other := range rooms {
				if !ok || other.dir == room.dir || !below(local, other.dir) {
					continue
				}
				found = append(found, other.dir)
				if !slices.Contains(room.imports, other.dir) {
					problems = append(problems, fmt.Sprintf("%s imports %s: this room stands above", file, local))
				}
			}
			if kafkaClient(i) == "" {
				continue
			}
			if client = i; !room.client {
				problems = append(problems, fmt.Sprintf("%s imports %s: only internal/log/kafka speaks to the brokers", file, i))
			}
		}
		if room.client && client == "" {
			problems = append(problems, room.dir+" imports no client library any more: correct the list of rooms")
		}
		for _, to := range room.imports {
			if !slices.Contains(listed, to) {
				problems = append(problems, fmt.Sprintf("%s imports %s, which does not stand above it in the list", room.dir, to))
			}
			if !slices.Contains(found, to) {
				problems = append(problems, fmt.Sprintf("%s no longer imports %s: remove it from the list", room.dir, to))
			}
		}
		listed = append(listed, room.dir)
	}
	return problems
}

func TestRoomsOfTheLogImportOneWay(t *testing.T) {
	for _, problem := range load(t).roomProblems() {
		t.Error(problem)
	}
}

func TestRoomRulesSeeWhatTheyForbid(t *testing.T) {
	room := func(imports ...string) *pkg { return &pkg{files: []source{{name: "x.go", imports: imports}}} }
	const client, module = "github.com/segmentio/kafka-go", "m"
	broker, kafka, stream := module+"/internal/log/broker", module+"/internal/log/kafka", module+"/internal/log/stream"
	for name, c := range map[string]struct {
		broker, kafka, stream *pkg
		want                  string
	}{
		"as it is":             {room(client), room(client, broker), room(kafka), ""},
		"kafka knows stream":   {room(client), room(client, broker, stream), room(kafka), "x.go imports internal/log/stream"},
		"broker knows kafka":   {room(client, kafka), room(client, broker), room(kafka), "x.go imports internal/log/kafka"},
		"stream has a client":  {room(client), room(client, broker), room(kafka, client+"/sasl"), "x.go imports github.com/segmentio/kafka-go/sasl"},
		"stream does without":  {room(client), room(client, broker), room(), "stream no longer imports internal/log/kafka"},
		"no client any more":   {room(client), room(broker), room(kafka), "internal/log/kafka imports no client"},
		"a room that is empty": {room(client), room(client, broker), nil, "internal/log/stream has no Go files"},
	} {
		r := &repository{module: module, pkgs: map[string]*pkg{}}
		for dir, p := range map[string]*pkg{"internal/log/broker": c.broker, "internal/log/kafka": c.kafka, "internal/log/stream": c.stream} {
			if p != nil {
				p.dir, r.pkgs[dir] = dir, p
			}
		}
		got := strings.Join(r.roomProblems(), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

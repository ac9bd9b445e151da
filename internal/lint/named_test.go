package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A rule about a folder or a client that is gone forbids nothing. So every rule names what is there, and every
// exception is used.
func TestRulesNameWhatIsThere(t *testing.T) {
	for _, problem := range goneFrom(load(t)) {
		t.Error(problem)
	}
}

// goneFrom lists what rules name and a repository lacks.
func goneFrom(r *repository) (gone []string) {
	named := slices.Concat(cores, above, pure, bindings, programsCarry, whole,
		[]string{"internal/log/broker", "trainer/bootstrap", "internal/testing", "lab"})
	for _, wing := range notWings {
		named = append(named, "internal/"+wing)
	}
	for _, core := range cores {
		named = append(named, core+"/"+adapter)
	}
	for _, dir := range named {
		if len(r.dirs(dir)) == 0 {
			gone = append(gone, "a rule names the folder "+dir+", which has no Go files")
		}
	}
	for _, dir := range bindings {
		if p := r.pkgs[dir]; p != nil && !slices.ContainsFunc(p.files, func(f source) bool { return slices.Contains(f.imports, "C") }) {
			gone = append(gone, dir+` may import "C", and does not`)
		}
	}
	imported := func(dir, path string) bool {
		p := r.pkgs[dir]
		return p != nil && slices.ContainsFunc(p.files, func(f source) bool {
			return slices.ContainsFunc(f.imports, func(i string) bool { return i == path || strings.HasPrefix(i, path+"/") })
		})
	}
	for _, client := range slices.Sorted(maps.Keys(kafkaClients)) {
		for _, dir := range kafkaClients[client] {
			if !imported(dir, client) {
				gone = append(gone, dir+" may import "+client+", and does not")
			}
		}
	}
	if !imported("internal/process/config", "github.com/caarlos0/env") {
		gone = append(gone, "nothing reads settings with github.com/caarlos0/env, which cores may not")
	}
	return gone
}

func TestNamesRuleSeesWhatIsGone(t *testing.T) {
	r := load(t)
	before := len(goneFrom(r))
	delete(r.pkgs, "internal/crawl/shard/cloud")
	delete(r.pkgs, "internal/process/config")
	r.pkgs["internal/neighbors/faiss"] = &pkg{dir: "internal/neighbors/faiss", files: []source{{name: "x.go"}}}
	r.pkgs["examples/scored"] = &pkg{dir: "examples/scored", files: []source{{name: "x.go"}}}
	want := []string{
		"a rule names the folder internal/crawl/shard/cloud, which has no Go files", "a rule names the folder internal/process/config, which has no Go files",
		`internal/neighbors/faiss may import "C", and does not`, "examples/scored may import github.com/segmentio/kafka-go, and does not",
		"nothing reads settings with github.com/caarlos0/env, which cores may not",
	}
	found := goneFrom(r)
	for _, problem := range want {
		if !slices.Contains(found, problem) {
			t.Errorf("not found: %s", problem)
		}
	}
	if len(found) != before+len(want) {
		t.Errorf("found %d, want %d:\n%s", len(found)-before, len(want), strings.Join(found, "\n"))
	}
}

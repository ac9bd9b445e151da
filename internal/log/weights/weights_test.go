package weights

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func announce(t *testing.T, log *stream.Log, fingerprint string, step int64) {
	t.Helper()
	must.Do(t, Announce(t.Context(), log, Weights{Fingerprint: fingerprint, Step: step, SHA256: "sum of " + fingerprint}))
}

func choose(t *testing.T, log *stream.Log, lane int, seq int64) string {
	t.Helper()
	fingerprint := must.Get(Choose(t.Context(), log, lane, seq))(t)
	return fingerprint
}

func retire(t *testing.T, log *stream.Log) string {
	t.Helper()
	stay := must.Get(Retire(t.Context(), log))(t)
	slices.Sort(stay)
	return strings.Join(stay, " ")
}

func TestAChoiceStays(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	if _, err := Choose(t.Context(), log, 0, 0); !errors.Is(err, ErrNone) {
		t.Errorf("before the trainer has published: error %v", err)
	}
	announce(t, log, "a", 0)
	first := choose(t, log, 0, 0)
	announce(t, log, "b", 100)
	for _, c := range []struct {
		name      string
		got, want string
	}{
		{"the first choice", first, "a"},
		{"the same place again", choose(t, log, 0, 0), "a"},
		{"another place", choose(t, log, 0, 16), "b"},
		{"another lane", choose(t, log, 1, 0), "b"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	if err := Propose(t.Context(), log, Choice{0, 0, "b"}); err != nil { // of an owner that was paused
		t.Fatal(err)
	}
	n := must.Get(Read(t.Context(), log))(t)
	if got, want := fmt.Sprint(n.Choices()), "[{0 0 a} {0 16 b} {1 0 b}]"; got != want {
		t.Errorf("choices %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(n.Used()), "[{a 0  sum of a} {b 100  sum of b}]"; got != want {
		t.Errorf("used %s, want %s", got, want)
	}
}

func TestWhatIsChosenStaysAndTheLatestTwo(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	announce(t, log, "a", 0)
	choose(t, log, 0, 0)
	for i, fingerprint := range []string{"b", "c", "d", "e"} {
		announce(t, log, fingerprint, int64(i+1))
	}
	if got := retire(t, log); got != "a d e" {
		t.Errorf("what stays: %s", got)
	}
	if err := Propose(t.Context(), log, Choice{0, 8, "b"}); err != nil { // too late: its file may be gone
		t.Fatal(err)
	}
	if got := choose(t, log, 0, 8); got != "e" {
		t.Errorf("a choice of retired weights counts: %s", got)
	}
	announce(t, log, "b", 1) // the trainer went back, and wrote the file again
	if got := choose(t, log, 0, 16); got != "b" {
		t.Errorf("what was announced again is not chosen: %s", got)
	}
	if got := retire(t, log); got != "a b e" {
		t.Errorf("what stays in the end: %s", got)
	}
}

// Many owners of a lane propose at once, while the trainer announces and retires. All take the same, and its file
// stays.
func TestOwnersAgree(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	announce(t, log, "0", 0)
	const places, owners = 8, 4
	var all sync.WaitGroup
	found := make([][places]string, owners)
	for owner := range owners {
		all.Go(func() {
			for i := range places {
				var err error
				if found[owner][i], err = Choose(t.Context(), log, 0, int64(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	files := map[string]bool{"0": true}
	for step := range rand.New(rand.NewPCG(1, 2)).IntN(8) + 8 {
		name := strconv.Itoa(step + 1)
		files[name] = true
		announce(t, log, name, int64(step+1))
		stay := strings.Fields(retire(t, log))
		for name := range files {
			files[name] = slices.Contains(stay, name)
		}
	}
	all.Wait()
	for owner, took := range found {
		if took != found[0] {
			t.Errorf("owner %d took %v, owner 0 %v", owner, took, found[0])
		}
	}
	for _, name := range found[0] {
		if !files[name] {
			t.Errorf("weights %s were chosen, and their file was removed", name)
		}
	}
}

func TestFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	a, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	if err := Prune(from, nil); err != nil {
		t.Errorf("a folder without published weights: %v", err)
	}
	must.Do(t, os.Mkdir(Folder(from), 0o755))
	for _, name := range []string{a + ".safetensors", other + ".safetensors", "." + other + ".safetensors-1.tmp", "mine.safetensors", ".mine.tmp", "mine.txt"} {
		must.Do(t, os.WriteFile(filepath.Join(Folder(from), name), []byte(name), 0o644))
	}
	sum := must.Get(Hash(File(from, a)))(t)
	must.Check(t, Copy(from, to, Weights{Fingerprint: a, SHA256: sum}))
	if copied, err := Hash(File(to, a)); copied != sum || err != nil {
		t.Errorf("the copy has %s (%v), want %s", copied, err, sum)
	}
	if err := Copy(from, to, Weights{Fingerprint: other, SHA256: sum}); err == nil || !strings.Contains(err.Error(), File(from, other)+" has the SHA-256 ") {
		t.Errorf("another file: error %v", err)
	}
	if err := Copy(from, to, Weights{Fingerprint: "c"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: error %v", err)
	}
	must.Do(t, Prune(from, []string{a}))
	var left []string
	for _, e := range must.Get(os.ReadDir(Folder(from)))(t) {
		left = append(left, e.Name())
	}
	if want := []string{".mine.tmp", a + ".safetensors", "mine.safetensors", "mine.txt"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

package service

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// writeTurns writes turns down and returns the file.
func writeTurns(t *testing.T, dir string, turns ...turn) string {
	t.Helper()
	f, _ := must.Get2(openOrderFile(dir, "exp", 0))(t)
	for _, p := range turns {
		must.Do(t, f.add(p))
	}
	must.Do(t, f.Close())
	return filepath.Join(dir, orderFileName)
}

// However many bytes of the file a crash leaves, its whole lines count, and it can be continued.
func TestOrderFileCutAtEveryByte(t *testing.T) {
	whole := must.Get(os.ReadFile(writeTurns(t, t.TempDir(), turn{0, 0}, turn{1, 11}, turn{2, 0})))(t)
	if want := "pairstream lane order 1, namespace \"exp\"\n0 0\n1 11\n2 0\n"; string(whole) != want {
		t.Fatalf("the file is %q, want %q", whole, want)
	}
	for n := range len(whole) + 1 {
		dir := t.TempDir()
		path := filepath.Join(dir, orderFileName)
		must.Do(t, os.WriteFile(path, whole[:n], 0o644))
		f, got, err := openOrderFile(dir, "exp", 0)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		want := max(strings.Count(string(whole[:n]), "\n")-1, 0)
		if len(got) != want {
			t.Errorf("%d bytes: %v, want %d steps", n, got, want)
		}
		must.Do(t, f.add(turn{int64(want), 7}))
		must.Do(t, f.Close())
		got[int64(want)] = 7
		again, err := readOrder(dir, "exp", 0)
		if err != nil || !maps.Equal(again, got) {
			t.Errorf("%d bytes, continued: %v (%v), want %v", n, again, err, got)
		}
	}
}

func TestOrderFileRefuses(t *testing.T) {
	const head = "pairstream lane order 1, namespace \"exp\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"another namespace", "pairstream lane order 1, namespace \"\"\n0 0\n", "is that of another run"},
		{"another file", "hello\n", `line 1 is "hello"`},
		{"no number", head + "0 zero\n", `line 2 is "0 zero", want a step and a lane`},
		{"too many", head + "0 1 2\n", `line 2 is "0 1 2"`},
		{"negative", head + "0 -1\n", `line 2 is "0 -1"`},
		{"zeros of a lost write", head + "0 0\n\x00\x00\x00\n", "line 3 is"},
		{"a step on two lanes", head + "0 0\n0 1\n", "line 3: step 0 was made on lane 0, and on lane 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, orderFileName), []byte(c.text), 0o644))
			if _, _, err := openOrderFile(dir, "exp", 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("opening: error %v, want %q in it", err, c.want)
			}
			if _, err := readOrder(dir, "exp", 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("reading: error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestOrderFileHasOneWriter(t *testing.T) {
	dir := t.TempDir()
	f, _ := must.Get2(openOrderFile(dir, "exp", 0))(t)
	if _, _, err := openOrderFile(dir, "exp", 0); err == nil || !strings.Contains(err.Error(), "another trainer is writing it") {
		t.Errorf("a second writer: error %v", err)
	}
	must.Do(t, f.Close())
	writeTurns(t, dir, turn{0, 1})
}

func TestNoOrderFileIsNoOrder(t *testing.T) {
	if o, err := readOrder(t.TempDir(), "exp", 0); len(o) != 0 || err != nil {
		t.Errorf("got %v, %v", o, err)
	}
}

func TestOrderFileFromAStepOn(t *testing.T) {
	dir := t.TempDir()
	writeTurns(t, dir, turn{0, 0}, turn{1, 4}, turn{2, 0}, turn{3, 4})
	if o, err := readOrder(dir, "exp", 2); err != nil || !maps.Equal(o, order{2: 0, 3: 4}) {
		t.Errorf("got %v, %v: want steps 2 and 3", o, err)
	}
}

func BenchmarkOrderFile(b *testing.B) {
	f, _ := must.Get2(openOrderFile(b.TempDir(), "exp", 0))(b)
	step := int64(0)
	for b.Loop() {
		must.Do(b, f.add(turn{step, 3}))
		step++
	}
	must.Do(b, f.Close())
}

// Turns are on the disk when add returns: the lane of a step is there before the step is made.
func TestTurnsOutlastALossOfPower(t *testing.T) {
	f, _ := must.Get2(openOrderFile(t.TempDir(), "exp", 0))(t)
	defer func() { must.Check(t, f.Close()) }()
	defer func(before func(*os.File) error) { syncFile = before }(syncFile)
	synced := int64(-1)
	syncFile = func(file *os.File) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		synced = info.Size()
		return file.Sync()
	}
	for step := range int64(3) {
		must.Do(t, f.add(turn{step, 1}))
		info, err := f.file.Stat()
		if err != nil || synced != info.Size() {
			t.Errorf("step %d: %d bytes are on the disk of %d (%v)", step, synced, info.Size(), err)
		}
	}
}

package materialize

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
)

// ledgerName is the file that lists the tars of an epoch.
const ledgerName = "tars.jsonl"

// head is the first line of a ledger. Tars of one epoch have one.
type head struct {
	Version   int               `json:"version"`
	Epoch     int32             `json:"epoch"`
	BatchSize int               `json:"batch_size"`
	PerTar    int               `json:"batches_per_tar"`
	Files     map[string]string `json:"files"` // SHA-256 of the plan's files of the epoch, by name
}

// line describes a tar.
type line struct {
	Tar     string    `json:"tar"`
	Short   bool      `json:"short,omitempty"` // it is in the folder of short mini-batches
	Bytes   int64     `json:"bytes"`
	Batches []int     `json:"batches"` // numbers in the order of training
	Samples int       `json:"samples"`
	Missing []Missing `json:"missing,omitempty"`
}

// Missing describes an image that cannot be read.
type Missing struct {
	Pair     string `json:"pair"` // of the sample
	Positive bool   `json:"positive,omitempty"`
	Reason   string `json:"reason"`
}

// ledger lists the tars of an epoch. A tar that it does not list is written again.
type ledger struct {
	f           *os.File
	full, short string // folders of the tars
	told        Epoch
	done        map[int]bool // mini-batches that are in tars
	damage      error        // why the lines from end on do not count
	end         int64
}

// continueLedger opens the ledger of an epoch that is not complete, or begins one. Lines from the first one on whose tar
// is not there any more are dropped: their mini-batches will be written again.
func continueLedger(full, short string, h head) (*ledger, error) {
	l, err := openLedger(full, short, h, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = l.f.Truncate(l.end); err == nil {
		_, err = l.f.Seek(l.end, io.SeekStart)
	}
	if err == nil && l.end == 0 {
		err = l.put(h)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// openLedger reads the ledger in the folder of full mini-batches. It refuses that of another plan.
func openLedger(full, short string, h head, flags int) (*ledger, error) {
	path := filepath.Join(full, ledgerName)
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	l := &ledger{f: f, full: full, short: short, done: map[int]bool{}}
	if err := l.read(h); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return l, nil
}

func (l *ledger) read(h head) error {
	lines := bufio.NewReader(l.f)
	first, err := lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		l.damage = errors.New("its ledger is empty") // a new one, or the run was killed in its first line
		return nil
	}
	if err != nil {
		return err
	}
	var before head
	if err := json.Unmarshal(first, &before); err != nil {
		return err
	}
	if !reflect.DeepEqual(before, h) {
		return errors.New("the tars are of another plan, or hold another number of mini-batches each: name another folder, or remove this one")
	}
	l.end = int64(len(first))
	for {
		text, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			l.damage = errors.New("the last line of its ledger is cut short")
			return nil
		case err != nil:
			return err
		}
		if l.damage = l.take(text); l.damage != nil {
			return nil
		}
		l.end += int64(len(text))
	}
}

// take takes a line whose tar is there.
func (l *ledger) take(text []byte) error {
	var t line
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	info, err := os.Stat(l.at(t))
	if err == nil && info.Size() != t.Bytes {
		err = fmt.Errorf("%s has %d bytes, want %d", l.at(t), info.Size(), t.Bytes)
	}
	if err == nil {
		l.remember(t)
	}
	return err
}

func (l *ledger) remember(t line) {
	p := l.part(t.Short)
	p.Tars++
	p.Batches += len(t.Batches)
	p.Samples += t.Samples
	for _, n := range t.Batches {
		l.done[n] = true
	}
	if l.told.Missing += len(t.Missing); l.told.FirstOfMissing == "" && len(t.Missing) > 0 {
		l.told.FirstOfMissing = t.Missing[0].Reason
	}
}

// part returns what is written into one of the two folders.
func (l *ledger) part(short bool) *Part {
	if short {
		return &l.told.Short
	}
	return &l.told.Full
}

// at returns the path of a tar.
func (l *ledger) at(t line) string {
	if t.Short {
		return filepath.Join(l.short, t.Tar)
	}
	return filepath.Join(l.full, t.Tar)
}

// note adds a tar that is complete.
func (l *ledger) note(t line) error {
	if err := l.put(t); err != nil {
		return err
	}
	l.remember(t)
	return nil
}

func (l *ledger) put(what any) error {
	raw, err := json.Marshal(what)
	if err == nil {
		_, err = l.f.Write(append(raw, '\n'))
	}
	return errors.Join(err, l.f.Sync())
}

func (l *ledger) close() error { return l.f.Close() }

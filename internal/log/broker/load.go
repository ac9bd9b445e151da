package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DamageError says where something other than the broker has changed the log. The broker does not start on such a log,
// and leaves the damage unchanged.
type DamageError struct {
	Path   string
	At     int64 // position in the file; -1: unknown
	Offset int64 // first affected record; -1: unknown
	What   string
}

func (e *DamageError) Error() string {
	where := e.Path + " is damaged"
	if e.At >= 0 {
		where += fmt.Sprintf(" at byte %d", e.At)
	}
	if e.Offset >= 0 {
		where += fmt.Sprintf(", from offset %d on", e.Offset)
	}
	remedy := ", or run `pairstream broker --set-aside-damage` on this folder once: it moves the damage to a separate file, and continues without it"
	if filepath.Base(e.Path) == topicsFile {
		remedy = ""
	}
	return fmt.Sprintf("%s: %s. It was left unchanged. Restore it from a copy%s", where, e.What, remedy)
}

// partition is a folder of segments.
type partition struct {
	path     string
	segments []int64 // first offsets, in order
	holes    bool
	place    expected // as far as it has been read
}

func (p *partition) segment(base int64) string {
	return filepath.Join(p.path, strconv.FormatInt(base, 10)+segmentExt)
}

// begin prepares for the next segment.
func (p *partition) begin(base int64) {
	p.place.last, p.place.holes = base == p.segments[len(p.segments)-1], p.holes
	if base == p.segments[0] {
		p.place.next = base
	}
}

const (
	partitionsFolder = "partitions"
	holesFile        = "holes" // in the folder of a partition that may lack offsets
)

// topicsOnDisk is the content of topics.json.
type topicsOnDisk struct {
	Topics []struct {
		Name       string            `json:"name"`
		Partitions int               `json:"partitions"`
		Configs    map[string]string `json:"configs"`
	} `json:"topics"`
}

// prepare checks the log before kfake reads it.
func (s *storage) prepare(o Options) error {
	if err := s.find(); err != nil {
		return err
	}
	if o.SetAsideDamage {
		if err := s.setAside(); err != nil {
			return err
		}
		if err := s.find(); err != nil {
			return err
		}
	}
	topics, err := s.owned(o.SetAsideDamage)
	if err != nil {
		return err
	}
	least := o.compactMin
	if least == 0 {
		least = compactMin
	}
	for path, compacted := range topics {
		p := s.own[path]
		if p == nil || !compacted {
			continue
		}
		if err := s.compact(p, least); err != nil { // the log is whole, only larger than necessary
			s.logger.Warn("a topic could not be compacted", keyPartition, path, keyErr, err)
		}
		if s.own[path], err = s.partitionAt(path); err != nil {
			return err
		}
	}
	return s.distrust()
}

// find finds the partitions that have records.
func (s *storage) find() error {
	s.own = make(map[string]*partition)
	entries, err := s.disk.ReadDir(filepath.Join(s.root, partitionsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.root, partitionsFolder, e.Name())
		switch filepath.Ext(e.Name()) {
		case removedExt:
			if err := s.disk.RemoveAll(path); err != nil {
				return err
			}
			continue
		case damagedExt:
			continue
		}
		p, err := s.partitionAt(path)
		if err != nil {
			return err
		}
		if err := s.findPlace(p); err != nil {
			return err
		}
		if len(p.segments) > 0 {
			s.own[path] = p
		}
	}
	return nil
}

// owned returns the partitions of all topics, and whether they are compacted. Records outside these are an error,
// because they would silently be lost.
func (s *storage) owned(setAside bool) (map[string]bool, error) {
	named, err := s.readTopics()
	if err != nil {
		return nil, err
	}
	meta := filepath.Join(s.root, metaFile)
	if _, err := s.disk.Stat(meta); errors.Is(err, fs.ErrNotExist) && len(named.Topics)+len(s.own) > 0 {
		return nil, &DamageError{Path: meta, At: -1, Offset: -1, What: "it is missing"}
	}
	owned := make(map[string]bool)
	for _, t := range named.Topics {
		for n := range t.Partitions {
			path := filepath.Join(s.root, partitionsFolder, url.PathEscape(t.Name)+"-"+strconv.Itoa(n))
			owned[path] = strings.Contains(t.Configs["cleanup.policy"], "compact")
			if p := s.own[path]; p != nil && !p.holes && owned[path] {
				if err := s.mayHaveHoles(p); err != nil {
					return nil, err
				}
			}
		}
	}
	for path := range s.own {
		if _, ok := owned[path]; ok {
			continue
		}
		if !setAside {
			return nil, &DamageError{Path: path, At: -1, Offset: -1, What: "no topic of " + topicsFile + " owns its records"}
		}
		if err := s.moveAside(path); err != nil {
			return nil, err
		}
		delete(s.own, path)
	}
	return owned, nil
}

// distrust marks files that an earlier process may have left unsynced. The first answer that reports their data waits
// for their sync.
func (s *storage) distrust() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.own {
		if len(p.segments) == 0 {
			continue
		}
		last := p.segment(p.segments[len(p.segments)-1])
		f := s.folderOf(last)
		f.files[filepath.Base(last)], f.names = true, true
	}
	for _, name := range []string{groupsFile, producersFile} {
		f := s.folderOf(filepath.Join(s.root, name))
		f.files[name], f.names = true, true
	}
	for _, path := range []string{filepath.Join(s.root, partitionsFolder), s.root, filepath.Dir(s.root)} {
		if err := syncPath(s.disk, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *storage) partitionAt(path string) (*partition, error) {
	entries, err := s.disk.ReadDir(path)
	if err != nil {
		return nil, err
	}
	p := &partition{path: path}
	for _, e := range entries {
		name, isSegment := strings.CutSuffix(e.Name(), segmentExt)
		base, err := strconv.ParseInt(name, 10, 64)
		switch {
		case e.Name() == holesFile:
			p.holes = true
		case isSegment && err == nil:
			p.segments = append(p.segments, base)
		}
	}
	slices.Sort(p.segments)
	return p, nil
}

// mayHaveHoles records that a partition may lack offsets.
func (s *storage) mayHaveHoles(p *partition) error {
	path := filepath.Join(p.path, holesFile)
	f, err := s.disk.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = syncPath(s.disk, p.path)
	}
	p.holes = true
	return err
}

func (s *storage) readTopics() (t topicsOnDisk, err error) {
	path := filepath.Join(s.root, topicsFile)
	raw, err := s.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		if uerr := json.Unmarshal(raw, &t); uerr != nil {
			err = &DamageError{Path: path, At: -1, Offset: -1, What: uerr.Error()}
		}
	}
	return t, err
}

// ReadFile implements kfake's file system. It returns the file as written, and an error for a damaged one.
func (s *storage) ReadFile(name string) ([]byte, error) {
	s.mu.Lock()
	entries, found := s.indexes[name]
	delete(s.indexes, name)
	s.mu.Unlock()
	switch ext := filepath.Ext(name); {
	case found:
		return entries, nil
	case ext == indexExt:
		return nil, fs.ErrNotExist
	case ext == segmentExt:
		return s.readSegment(name)
	}
	raw, err := s.disk.ReadFile(name)
	switch ext := filepath.Ext(name); {
	case err != nil:
		return nil, err
	case ext == ".json":
		return s.unseal(name, raw)
	case ext == ".log":
		return s.checkEntries(name, raw)
	}
	return raw, nil
}

// unseal checks a JSON file. Some only shorten a start: damaged, they count as missing.
func (s *storage) unseal(name string, raw []byte) ([]byte, error) {
	object, err := withoutSum(name, raw)
	if err == nil && !json.Valid(object) {
		err = &DamageError{Path: name, At: -1, Offset: -1, What: "it is no JSON"}
	}
	switch filepath.Base(name) {
	case snapshotFile, sessionsFile, windowsFile:
		if err != nil {
			s.logger.Warn("the broker ignores a damaged file", keyErr, err)
			return nil, fs.ErrNotExist
		}
	}
	return object, err
}

const cutOff = "the log ends within a batch, which was never acknowledged: it is cut there"

// readSegment checks everything but the checksums of batches. kfake computes these itself, and tries to remove batches
// that do not match.
func (s *storage) readSegment(name string) ([]byte, error) {
	raw, err := s.disk.ReadFile(name)
	p := s.own[filepath.Dir(name)]
	base, perr := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), segmentExt), 10, 64)
	if err != nil || p == nil || perr != nil {
		return raw, err
	}
	p.begin(base)
	var entries []byte
	if missing := base - p.place.next; !p.holes && missing != 0 && len(raw) > 0 {
		return nil, &DamageError{Path: name, At: 0, Offset: p.place.next, What: fmt.Sprintf("%d records before it are missing", missing)}
	}
	flaw := p.place.walk(raw, false, func(_ int64, batch head) { entries = index(entries, batch) })
	if flaw != nil && !flaw.torn {
		return nil, &DamageError{Path: name, At: flaw.at, Offset: p.place.next, What: flaw.what}
	}
	if flaw != nil {
		s.logger.Warn(cutOff,
			keyFile, name, keyByte, flaw.at, keyBytes, int64(len(raw))-flaw.at)
		if err := s.cut(name, flaw.at); err != nil {
			return nil, err
		}
		raw = raw[:flaw.at]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes[strings.TrimSuffix(name, segmentExt)+indexExt] = entries
	return raw, nil
}

func (s *storage) cut(name string, size int64) error {
	f, err := s.disk.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// mismatched finds the batch that kfake refuses.
func (s *storage) mismatched(name string) error {
	damage := &DamageError{Path: name, Offset: -1, What: "it was changed while it was read"}
	if raw, err := s.disk.ReadFile(name); err == nil {
		p := expected{holes: true}
		if flaw := p.walk(raw, true, func(int64, head) {}); flaw != nil {
			damage.At, damage.Offset, damage.What = flaw.at, p.next, flaw.what
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.damage == nil {
		s.damage = damage
	}
	return damage
}

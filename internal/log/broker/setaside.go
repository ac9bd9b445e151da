package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// setAside moves damaged parts of the log to separate files. It keeps the records after the damage.
func (s *storage) setAside() error {
	for _, p := range s.own {
		p.place = expected{next: -1}
		for _, base := range p.segments {
			if err := s.setAsideIn(p, base); err != nil {
				return fmt.Errorf("setting damage aside: %w", err)
			}
		}
	}
	for _, name := range []string{groupsFile, producersFile} {
		if err := s.setAsideEntries(filepath.Join(s.root, name)); err != nil {
			return fmt.Errorf("setting damage aside: %w", err)
		}
	}
	return s.setAsideObjects()
}

// setAsideEntries does the same for groups.log or pids.log.
func (s *storage) setAsideEntries(name string) error {
	raw, err := s.disk.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var good []byte
	for rest := raw; len(rest) > 0; {
		at, what := entriesFlaw(rest)
		good = append(good, rest[:at]...)
		if what == "" {
			break
		}
		length := nextEntry(rest[at:])
		if length < 0 {
			length = len(rest) - at
		}
		if err := s.keepAside(name, int64(len(raw)-len(rest)+at), rest[at:at+length], what); err != nil {
			return err
		}
		rest = rest[at+length:]
	}
	if len(good) == len(raw) {
		return nil
	}
	return s.replace(name, good)
}

// setAsideObjects does the same for JSON files that the broker can start without. It makes a new meta.json if that is
// missing.
func (s *storage) setAsideObjects() error {
	names := []string{metaFile, "acls.json", "quotas.json", "sasl.json", "broker_configs.json"}
	for i, name := range names {
		names[i] = filepath.Join(s.root, name)
		_, err := s.ReadFile(names[i])
		if damage := new(DamageError); errors.As(err, &damage) {
			err = s.moveAside(names[i])
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if _, err := s.disk.Stat(names[0]); len(s.own) > 0 && errors.Is(err, fs.ErrNotExist) {
		return s.replace(names[0], []byte(`{"version":1,"cluster_id":"`+clusterID+`"}`))
	}
	return nil
}

// moveAside renames a file or folder.
func (s *storage) moveAside(path string) error {
	s.logger.Warn("damage was set aside", keyFile, path, keyTo, path+damagedExt)
	if err := s.disk.Rename(path, path+damagedExt); err != nil {
		return err
	}
	return syncPath(s.disk, filepath.Dir(path))
}

func (s *storage) setAsideIn(p *partition, base int64) error {
	name := p.segment(base)
	raw, err := s.disk.ReadFile(name)
	if err != nil {
		return err
	}
	p.begin(base)
	if p.place.next != base && !p.holes { // a segment is missing
		if err := s.mayHaveHoles(p); err != nil {
			return err
		}
		p.place.holes = true
	}
	var good []byte
	at := int64(0)
	for at < int64(len(raw)) {
		flaw := p.place.walk(raw[at:], true, func(_ int64, b head) { good = append(good, b...) })
		if flaw == nil || flaw.torn {
			if flaw != nil { // kfake's start cuts it
				good = append(good, raw[at+flaw.at:]...)
			}
			break
		}
		begin := at + flaw.at
		length := p.place.resume(raw[begin+1:])
		if length < 0 {
			length = int64(len(raw)) - begin - 1
		}
		at = begin + 1 + length
		if err := s.keepAside(name, begin, raw[begin:at], flaw.what); err != nil {
			return err
		}
		if !p.holes {
			if err := s.mayHaveHoles(p); err != nil {
				return err
			}
		}
		p.place.holes = true
	}
	if len(good) == len(raw) {
		return nil
	}
	return s.replace(name, good)
}

// keepAside writes damaged bytes to their own file.
func (s *storage) keepAside(name string, at int64, bytes []byte, what string) error {
	aside := fmt.Sprintf("%s-%d%s", name, at, damagedExt)
	s.logger.Warn("damage was set aside", keyFile, name, keyByte, at, keyBytes, len(bytes), keyReason, what, keyTo, aside)
	f, err := s.disk.OpenFile(aside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncPath(s.disk, filepath.Dir(name))
}

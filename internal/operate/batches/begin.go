package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/weights"
)

// Manifest is plan.json. Two runs on the same data write the same manifest.
type Manifest struct {
	Version  int               `json:"version"`
	Sources  []string          `json:"sources"`
	Inputs   Inputs            `json:"inputs"`
	Recipe   string            `json:"recipe"`
	Settings map[string]string `json:"settings"`
	Lanes    int               `json:"lanes"`
	Epochs   int               `json:"epochs"`
	High     float64           `json:"high"` // a candidate above it is a connection
	Low      float64           `json:"low"`  // a candidate below it is a negative
	ConD     string            `json:"con_d,omitempty"`
	Pairs    int               `json:"pairs"` // in the data, including repeated pairs
	// Forgotten is the digest of the tombstones that were applied.
	Forgotten string       `json:"forgotten,omitempty"`
	Features  []string     `json:"features,omitempty"` // digests of the features that group the epochs after the first
	Blend     []Blended    `json:"blend,omitempty"`    // the plans whose mini-batches these are
	Files     []plans.File `json:"files"`
}

// Inputs holds the versions of the data and the models of a plan.
type Inputs struct {
	Files   map[string]string `json:"files"`             // of the data: size and version of each, by URI
	Columns []string          `json:"columns,omitempty"` // of Parquet files: images, captions
	// Function is the SHA-256 of the module of --strategy.
	Function string            `json:"function,omitempty"`
	Models   map[string]string `json:"models"` // SHA-256 of the files that settings name, by variable
}

// inputs reads the versions of the data and the models.
func (p *planning) inputs(ctx context.Context, settings map[string]string) (in Inputs, err error) {
	in = Inputs{Files: map[string]string{}, Models: map[string]string{}}
	for _, path := range p.tables {
		info, err := os.Stat(path)
		if err != nil {
			return in, err
		}
		in.Files[shard.FileURI(path)+p.share.String()] = stateOf(info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
	}
	if len(p.tables) > 0 {
		in.Columns = []string{p.columns.Image, p.columns.Caption}
	} else {
		found, err := shard.Find(ctx, p.tars, nil)
		if err != nil {
			return in, err
		}
		for _, t := range found.Tars {
			in.Files[t.URI] = stateOf(t.Size, t.Version)
			if uri, size, version, ok := t.Beside(); ok {
				in.Files[uri] = stateOf(size, version)
			}
		}
		if err := found.Close(); err != nil {
			return in, err
		}
	}
	for name, path := range settings {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue // a number or an address; missing models have been refused
		}
		if in.Models[name], err = weights.Hash(path); err != nil {
			return in, fmt.Errorf("%s is %q: %w", name, path, err)
		}
	}
	return in, nil
}

func stateOf(size int64, version string) string { return fmt.Sprintf("%d bytes, %s", size, version) }

// difference describes how two plans differ. It returns "" if one folder can hold both.
func (m *Manifest) difference(now *Manifest) string {
	switch {
	case !slices.Equal(m.Sources, now.Sources):
		return fmt.Sprintf("other data: %s, and now %s", strings.Join(m.Sources, " "), strings.Join(now.Sources, " "))
	case !slices.Equal(m.Inputs.Columns, now.Inputs.Columns):
		return fmt.Sprintf("other columns: %q, and now %q", m.Inputs.Columns, now.Inputs.Columns)
	case !reflect.DeepEqual(m.Settings, now.Settings):
		return "other settings: " + firstDifference(m.Settings, now.Settings)
	case !maps.Equal(m.Inputs.Files, now.Inputs.Files):
		return "other data: " + firstDifference(m.Inputs.Files, now.Inputs.Files)
	case !maps.Equal(m.Inputs.Models, now.Inputs.Models):
		return "other files by the same names: " + firstDifference(m.Inputs.Models, now.Inputs.Models)
	case m.Inputs.Function != now.Inputs.Function:
		return "another version of the module of --strategy"
	case !continues(m.Features, now.Features):
		return "other --features"
	}
	return ""
}

// firstDifference names the first key whose values differ.
func firstDifference(was, is map[string]string) string {
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	said := func(m map[string]string, key string) string {
		if v, ok := m[key]; ok {
			return fmt.Sprintf("%q", v)
		}
		return "not there"
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if a, b := said(was, key), said(is, key); a != b {
			return fmt.Sprintf("%s was %s and is %s", key, a, b)
		}
	}
	return ""
}

// folder returns the folder of the plan.
func (p *planning) folder() ownedfolder.Folder {
	return ownedfolder.Folder{Setting: "--out", Path: p.out, Kind: "pairstream batches"}
}

// apart refuses a folder of the plan that contains the data, or that is in a folder of tars. It may be beside Parquet
// files.
func (p *planning) apart() error {
	var faults []error
	for _, path := range p.sources {
		if shard.IsRemote(path) {
			continue
		}
		if place, _, err := portion.Cut(path); err == nil {
			path = place
		}
		data := ownedfolder.Place{Setting: "the data", Path: shard.LocalPath(path)}
		tables, err := parquetFiles(data.Path)
		if err == nil && len(tables) > 0 {
			faults = append(faults, p.folder().Without(data))
		} else {
			faults = append(faults, p.folder().Apart(data)) // findInput has returned its error
		}
	}
	return errors.Join(faults...)
}

// work is the folder of the log. It exists until the plan is finished.
func (p *planning) work() string { return filepath.Join(p.out, workFolder) }

func (p *planning) images() string { return filepath.Join(p.out, imagesFolder) }

func (p *planning) broker() string { return filepath.Join(p.work(), "broker") }

func (p *planning) manifest() string { return filepath.Join(p.out, "plan.json") }

// Folders in the folder of the plan.
const (
	workFolder   = "work"
	imagesFolder = "images"
)

// begin creates the folder, or reuses that of an interrupted run.
func (p *planning) begin(m Manifest) (done bool, err error) {
	for _, path := range []string{p.manifest(), filepath.Join(p.work(), "begun.json")} {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var before Manifest
		if err = errors.Join(err, json.Unmarshal(raw, &before)); err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		if path != p.manifest() && !p.ordered() {
			before.Inputs.Function = m.Inputs.Function
		}
		if other := before.difference(&m); other != "" {
			return false, fmt.Errorf("--out=%s holds a plan of %s (%s says more): want another folder, or remove this one", p.out, other, path)
		}
		if path == p.manifest() && len(before.Features) >= len(m.Features) {
			if before.Forgotten != m.Forgotten {
				return false, fmt.Errorf("--out=%s holds a plan with other tombstones, and may have images that are forgotten now: want another folder, or remove this one", p.out)
			}
			return true, whole(p.out, before.Files)
		}
	}
	if _, err := p.folder().Claim(); err != nil {
		return false, err
	}
	if err := os.MkdirAll(p.work(), 0o755); err != nil {
		return false, err
	}
	return false, writeJSON(filepath.Join(p.work(), "begun.json"), m)
}

// shownSources returns sources without the passwords in their options.
func shownSources(sources []string) []string {
	shown := make([]string, len(sources))
	for i, s := range sources {
		shown[i] = display.Redacted(s)
	}
	return shown
}

// whole refuses a plan whose files do not have the digests of its manifest.
func whole(dir string, files []plans.File) error {
	for _, f := range files {
		sum, err := weights.Hash(filepath.Join(dir, f.Name))
		if err == nil && sum != f.SHA256 {
			err = fmt.Errorf("%s has the SHA-256 %s, want %s", f.Name, sum, f.SHA256)
		}
		if err != nil {
			return fmt.Errorf("--out=%s holds a plan that was complete, and is not any more: %w; bring the file back, or remove the folder", dir, err)
		}
	}
	return nil
}

func writeJSON(path string, what any) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(what)
	})
}

// leave removes the log, unless the plan has further epochs.
func (p *planning) leave() error {
	epochs := p.settings.Grouper.Options().Epochs
	if n := p.target(); n < epochs {
		fmt.Fprintf(p.w, "%d of %d epochs are there: train on epoch %d, and plan the next with one --features more\n", n, epochs, n-1)
		return nil
	}
	return p.folder().Remove(workFolder)
}

// abandon removes the log and the images of a run that no other run can continue, so that the next run may use other
// data or settings.
func (p *planning) abandon() error { return p.folder().Remove(workFolder, imagesFolder) }

// fresh reports whether there is no log yet. A run that started a log has got further.
func (p *planning) fresh() bool {
	_, err := os.Stat(p.broker())
	return errors.Is(err, fs.ErrNotExist)
}

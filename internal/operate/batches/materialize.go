package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/materialize"
	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/operate/gauge"
)

// checkTars refuses a folder for tars that is not ours, or is not apart from the plan and the data.
func (o Options) checkTars() error {
	if o.Tars == "" {
		if len(o.Sources) == 0 && o.Blend == "" {
			return errors.New("there is no data: name tars or Parquet files, or --materialize DIR for the tars of a plan that is complete, or --blend")
		}
		return nil
	}
	if o.PerTar < 1 {
		return fmt.Errorf("--tar-batches is %d, want 1 or more", o.PerTar)
	}
	places := []ownedfolder.Place{{Setting: "--out", Path: o.Out}}
	for _, path := range o.Sources {
		if !shard.IsRemote(path) {
			if place, _, err := portion.Cut(path); err == nil {
				path = place
			}
			places = append(places, ownedfolder.Place{Setting: "the data", Path: shard.LocalPath(path)})
		}
	}
	return errors.Join(materialize.Folder(o.Tars).Check(), materialize.Folder(o.Tars).Apart(places...))
}

var errNoPlan = errors.New("the folder holds no plan that is complete: name the data, and the plan is made first")

// readPlan returns the manifest of a plan that is complete, whose files are as they were.
func readPlan(dir string) (m Manifest, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w", dir, errNoPlan)
	}
	if err = errors.Join(err, json.Unmarshal(raw, &m)); err != nil {
		return m, fmt.Errorf("--out=%s: plan.json: %w", dir, err)
	}
	return m, whole(dir, m.Files)
}

// tars writes the mini-batches of a plan that is complete into tars. forgotten are the tombstones that hold now.
func (o Options) tars(ctx context.Context, environ map[string]string, forgotten map[string][]byte, w io.Writer, terminal bool) error {
	m, err := readPlan(o.Out)
	if err != nil {
		return err
	}
	if m.Forgotten != forgottenDigest(forgotten) {
		return fmt.Errorf("--out=%s holds a plan with other tombstones, and may hold pairs that are forgotten now: make it again in another folder", o.Out)
	}
	size, err := strconv.Atoi(m.Settings["BATCH_SIZE"])
	if err != nil {
		return fmt.Errorf("--out=%s: plan.json has no BATCH_SIZE: %w", o.Out, err)
	}
	images, err := o.openImages(ctx, m, environ)
	if err != nil {
		return err
	}
	all := 0
	for _, f := range m.Files {
		all += f.Batches
	}
	var done materialize.Progress
	stop := gauge.Watch(w, terminal, []*gauge.Gauge{
		{Name: "in tars", Unit: "batches", Done: done.Batches.Load, All: func() int64 { return int64(all) }},
		{Name: "in tars", Unit: "bytes", Done: done.Bytes.Load, All: func() int64 { return 0 }},
	})
	epochs, err := materialize.Run(ctx, materialize.Options{
		Plan: o.Out, Files: m.Files, Low: m.Low, BatchSize: size, PerTar: o.PerTar, Out: o.Tars,
	}, images, &done)
	stop()
	if err = errors.Join(err, images.Close()); err != nil {
		return err
	}
	for _, e := range epochs {
		tellTars(w, filepath.Join(o.Tars, e.Folder), size, e)
	}
	return nil
}

// openImages opens the places of a plan's images: those of its sources, and of BUCKET_ROOTS.
func (o Options) openImages(ctx context.Context, m Manifest, environ map[string]string) (*shard.Bucket, error) {
	sources := o.Sources
	if len(sources) == 0 {
		sources = shard.WithOptions(m.Sources, strings.Split(environ["BUCKET_ROOTS"], ","))
	}
	in, err := findInput(sources, filepath.Join(o.Out, imagesFolder))
	if err != nil {
		return nil, fmt.Errorf("the data of the plan in --out=%s: %w; if it lies elsewhere, or its name is not a whole path, name it behind the flags", o.Out, err)
	}
	if more := environ["BUCKET_ROOTS"]; more != "" {
		in.roots = append(in.roots, strings.Split(more, ",")...)
	}
	return shard.OpenBucket(ctx, in.roots, nil)
}

// tellTars prints what the tars of an epoch hold.
func tellTars(w io.Writer, folder string, size int, e materialize.Epoch) {
	fmt.Fprintf(w, "%s: %d mini-batches of %d samples", folder, e.Full.Batches, size)
	if n := e.Full.Tars; n > 0 {
		fmt.Fprintf(w, " in {%07d..%07d}.tar", 0, n-1)
	}
	if n := e.Short.Tars; n > 0 {
		fmt.Fprintf(w, "; %s-short: %d with fewer, %d samples, a tar each", folder, n, e.Short.Samples)
	}
	fmt.Fprintln(w)
	if e.Missing > 0 {
		fmt.Fprintf(w, "left out %d images, which %s lists, the first by: %s\n", e.Missing, filepath.Join(folder, "tars.jsonl"), e.FirstOfMissing)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
)

const (
	loaderRowName = "loader" // its Python packages are no packages of Debian: a short run of all rows leaves it out
	loaderTars    = 4
	loaderPhotos  = 128 // different ones
	loaderBatch   = 64
	loaderSize    = 224
	loaderWorkers = 2
)

// loaderSides lists the loaders' programs: pairstream's, its two peers, and a DataLoader over images in memory, the
// limit.
var loaderSides = []string{"pairstream", "webdataset", "mosaic", "memory"}

// loaderRow measures three loaders for PyTorch. Both peers are measured, and the row compares with the faster one.
func loaderRow(ctx context.Context, b *bench) (out *Result, err error) {
	n := b.size(2048, 4*loaderBatch)
	j := job{Folder: filepath.Join(b.folder, loaderRowName), Options: map[string]float64{
		"batch": loaderBatch, "size": loaderSize, "workers": loaderWorkers, "tars": loaderTars,
	}}
	bytesEach, err := writeLoaderTars(j, n)
	if err != nil {
		return nil, err
	}
	broker, err := loaderBroker(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	var sides []*side
	for _, name := range loaderSides {
		p := program{script: "loader_" + name + ".py"}
		s, failed := b.enter(ctx, Entrant{Home: pypi, Program: p.String(), program: p, python: b.current}, j)
		if failed != nil {
			return nil, fmt.Errorf("%w (`make bench` installs the loaders; --current names their Python)", failed)
		}
		defer closing(s, &err)
		sides = append(sides, s)
	}
	answers, err := race(min(1, b.repeats-1), b.repeats, "run", sides...)
	if err != nil {
		return nil, err
	}
	perSecond := func(a answer) float64 { return a.Values["pairs"] / a.Seconds }
	ours, peer, name := figure(answers[0], perSecond), figure(answers[1], perSecond), loaderSides[1]
	out = &Result{Unit: "pairs/s", Extra: map[string]float64{"peer_" + name: peer.Value}}
	if second := figure(answers[2], perSecond); second.Value > peer.Value {
		peer, name = second, loaderSides[2]
	}
	out.Extra["peer_"+loaderSides[2]] = figure(answers[2], perSecond).Value
	out.Ours, out.Peer, out.Ratio, out.CPURatio = ours, &peer, ours.Value/peer.Value, peer.CPU/ours.CPU
	out.Size = fmt.Sprintf("%s JPEGs of %.0f KB with captions in %d tars, batches of %d, to %d, %d workers", thousands(n), bytesEach/1000, loaderTars, loaderBatch, loaderSize, loaderWorkers)
	out.Against, out.Bound = "WebDataset and MosaicML Streaming, the faster: "+name, "PIL's decoding and resizing"
	out.Met = out.Ratio >= 0.9
	out.Notes = []string{fmt.Sprintf("WebDataset %.0f pairs/s, MosaicML Streaming %.0f pairs/s", out.Extra["peer_webdataset"], out.Extra["peer_mosaic"])}
	out.limited(figure(answers[3], perSecond).Value, "PyTorch's DataLoader over the same files in memory, decoded and resized by PIL")
	for i, s := range sides[1:3] {
		f := figure(answers[i+1], perSecond)
		out.Tried = append(out.Tried, Entrant{
			Home: pypi, Program: loaderSides[i+1], About: s.about, Value: f.Value, CPU: f.CPU, Won: loaderSides[i+1] == name,
		})
	}
	out.Checks, err = sameEpoch(n, sides)
	return out, err
}

// writeLoaderTars writes the pairs of the row.
func writeLoaderTars(j job, n int) (bytesEach float64, err error) {
	if err := os.MkdirAll(j.Folder, 0o755); err != nil {
		return 0, err
	}
	if bytesEach, err = writePhotos(j, min(n, loaderPhotos)); err != nil {
		return 0, err
	}
	w, err := shard.NewDirWriter(j.Folder, (n+loaderTars-1)/loaderTars)
	if err != nil {
		return 0, err
	}
	for i := range n {
		raw, err := os.ReadFile(photoFile(j, i%loaderPhotos))
		if err != nil {
			return 0, errors.Join(err, w.Abort())
		}
		text := fmt.Appendf(nil, "a picture of noise with the number %d", i)
		if err := w.Write(fmt.Sprintf("%06d", i), shard.File{Ext: "jpg", Data: raw}, shard.File{Ext: "txt", Data: text}); err != nil {
			return 0, errors.Join(err, w.Abort())
		}
	}
	return bytesEach, w.Close()
}

// loaderBroker starts a broker, makes the topics and writes its address into a file.
func loaderBroker(ctx context.Context, j job) (*broker.Broker, error) {
	broker, err := broker.Start(broker.Options{})
	if err != nil {
		return nil, err
	}
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{broker.Addr()}, 1
	l, err := stream.Connect(ctx, cfg, stream.Options{})
	if err == nil {
		err = l.EnsureTopics(ctx)
		l.Close()
	}
	if err == nil {
		err = os.WriteFile(j.path("broker"), []byte(broker.Addr()), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, broker.Close())
	}
	return broker, nil
}

// sameEpoch compares what the sides loaded: as many pairs, the same captions, the same pixels.
func sameEpoch(n int, sides []*side) ([]string, error) {
	var first answer
	for i, s := range sides {
		a, err := s.ask("check")
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = a
		}
		off := math.Abs(a.Values["squares"]/first.Values["squares"] - 1)
		if a.Values["pairs"] != float64(n) || a.Values["letters"] != first.Values["letters"] || !(off < 1e-6) {
			return nil, fmt.Errorf("%s loads other pairs than %s: %v and %v of %d", loaderSides[i], loaderSides[0], a.Values, first.Values, n)
		}
	}
	return []string{strings.Join(loaderSides, ", ") + " give the same pixels and captions"}, nil
}

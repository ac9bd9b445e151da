package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// crawlOf writes a tar for each picture, with a caption, and returns their samples.
func crawlOf(t *testing.T, dir string, captions ...string) []schemas.Sample {
	t.Helper()
	out := must.Get(shard.NewDirWriter(dir, 1))(t)
	for i, caption := range captions {
		im := image.NewNRGBA(image.Rect(0, 0, 4, 4))
		im.Set(0, 0, color.NRGBA{R: byte(i), A: 255})
		var encoded bytes.Buffer
		must.Do(t, png.Encode(&encoded, im))
		must.Do(t, out.Write(strconv.Itoa(i), shard.File{Ext: "png", Data: encoded.Bytes()}, shard.File{Ext: "txt", Data: []byte(caption)}))
	}
	must.Do(t, out.Close())
	var samples []schemas.Sample
	must.Get(shard.Scan(t.Context(), []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error {
			for _, p := range shard.Pairs(ex) {
				samples = append(samples, schemas.Sample{ID: p.ID, ImageID: p.ImageID, Image: *p.Image, Text: p.Caption, Position: int32(len(samples))})
			}
			return nil
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%s", p) },
	}))(t)
	return samples
}

// TestConnectionsComeBackAsPairs writes the connections of a run as tars, and publishes these into another run.
func TestConnectionsComeBackAsPairs(t *testing.T) {
	log := testLog(t)
	crawl, out := t.TempDir(), filepath.Join(t.TempDir(), "new")
	s := crawlOf(t, crawl, "a cat", "a kitten", "a dog", "a puppy", "gone", "a cat")
	s[3].Text, s[3].Replaced = "puppy grass", true
	t.Setenv("BUCKET_ROOTS", shard.FileURI(crawl))
	gone := s[4]
	gone.Image.URI = shard.FileURI(filepath.Join(crawl, "no.tar"))
	first := &schemas.ScoredBatch{
		Batch: schemas.Batch{
			Samples: []schemas.Sample{s[0], s[1], s[2], s[3]}, M: 2, Batches: 2, Strategy: schemas.StrategyRandom,
			I2T: schemas.Int32s{1, 3, 0, 2, 3, -1, 2, 0}, T2I: schemas.Int32s{1, 2, 0, 2, 3, 0, 2, -1},
		}, Model: "judge",
		// (0, kitten) twice; (0, puppy's objects); (1, cat) exactly at the threshold, and just above it; (3, dog)
		ProbI2T: schemas.Floats32{0.9, 0.95, 0.8, 0.1, 0.2, 0, 0.81, 0.3}, ProbT2I: schemas.Floats32{0.8000001, 0.4, 0.99, 0.7, 0.85, 0.1, 0.2, 0},
	}
	// An image with a caption that another pair of the batch has; an image that is gone; one that lane 0 wrote before.
	second := &schemas.ScoredBatch{
		Batch: schemas.Batch{
			Group: schemas.GroupID{Lane: 1}, Samples: []schemas.Sample{s[0], s[5], gone, s[1]}, M: 1, Batches: 1,
			Strategy: schemas.StrategyRandom, I2T: schemas.Int32s{1, 3, 0, 0}, T2I: schemas.Int32s{-1, -1, -1, -1},
		}, Model: "judge",
		ProbI2T: schemas.Floats32{0.97, 0.96, 0.95, 0.94}, ProbT2I: schemas.Floats32{0, 0, 0, 0},
	}
	p := log.NewPublisher(stream.PublisherOptions{})
	for lane, records := range [][]schemas.Record{{first, &schemas.Seal{}, first}, {second, &schemas.Seal{Final: true}}} {
		for seq, rec := range records {
			must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, int64(seq), stream.Mark{}, rec))
		}
	}
	must.Do(t, p.Close(t.Context()))

	printed := mustCommand(t, "connections", "--above", "0.8", "--out", out, "--per-shard", "2")
	for _, want := range []string{"wrote 4 connections above 0.8", "left out 9 known pairs, 2 with objects for captions, 1 whose image is gone"} {
		if !strings.Contains(printed, want) {
			t.Errorf("printed %q, want %q", printed, want)
		}
	}
	type connection struct {
		Caption     string
		Probability float32
		ImageOf     string `json:"image_of"`
		CaptionOf   string `json:"caption_of"`
		Judge       string `json:"con_d"`
	}
	want := map[schemas.PairID]connection{}
	for _, c := range []struct {
		image, caption schemas.Sample
		p              float32
	}{{s[0], s[1], 0.9}, {s[3], s[2], 0.81}, {s[1], s[0], 0.8000001}, {s[5], s[1], 0.96}} {
		want[schemas.NewPairID(c.image.ImageID, c.caption.Text)] = connection{c.caption.Text, c.p, c.image.ID.String(), c.caption.ID.String(), "judge"}
	}
	got := map[schemas.PairID]connection{}
	totals, err := shard.Scan(t.Context(), []string{out}, shard.Visitor{
		Example: func(ex shard.Example) error {
			var c connection
			err := json.Unmarshal(ex.Meta, &c)
			got[schemas.NewPairID(ex.ImageID, ex.Captions[0])] = c
			return err
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%s", p) },
	})
	if err != nil || totals.Tars != 2 || !maps.Equal(got, want) {
		t.Errorf("%d tars hold %v, want %v (%v)", totals.Tars, got, want, err)
	}

	t.Setenv("NAMESPACE", "more")
	if printed := mustCommand(t, "produce", out); !strings.Contains(printed, "published 4 pairs of 4 images from 2 tars") {
		t.Errorf("produce printed %q", printed)
	}
	again := must.Get(rundir.Connect(t.Context()))(t)
	t.Cleanup(again.Close)
	for lane := range 2 {
		for pair, err := range stream.Values[*schemas.Pair](t.Context(), again, schemas.Pairs, lane) {
			must.Do(t, err)
			if want[pair.ID].Caption != pair.Caption {
				t.Errorf("produce published %s %q", pair.ID, pair.Caption)
			}
			delete(want, pair.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("produce left out %v", want)
	}
}

func TestConnectionsRefuses(t *testing.T) {
	testLog(t)
	full := t.TempDir()
	crawlOf(t, full, "a cat")
	for _, c := range []struct {
		roots, want string
		args        []string
	}{
		{"", "BUCKET_ROOTS is empty", []string{"--out", filepath.Join(t.TempDir(), "new")}},
		{"file:///nowhere/at/all", "BUCKET_ROOTS", []string{"--out", filepath.Join(t.TempDir(), "new")}},
		{shard.FileURI(full), "want a folder that is empty", []string{"--out", full}},
		{shard.FileURI(full), "--above is 1, want", []string{"--out", filepath.Join(t.TempDir(), "new"), "--above", "1"}},
		{shard.FileURI(full), "0 examples a shard", []string{"--out", filepath.Join(t.TempDir(), "new"), "--per-shard", "0"}},
		{shard.FileURI(full), "required flag(s) \"out\"", nil},
	} {
		t.Setenv("BUCKET_ROOTS", c.roots)
		if _, err := command(t, append([]string{"connections"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one that says %q", c.args, err, c.want)
		}
	}
}

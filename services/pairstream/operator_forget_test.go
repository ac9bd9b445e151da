//go:build cgo

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/schemas"
)

// forget takes an image back, by its sum or by a pair that shows it. It may be one that was not published yet.
func (w *world) forget(a action) {
	w.read(w.here)
	images := make(map[schemas.ImageID]schemas.PairID)
	for lane := range worldLanes {
		for _, e := range w.here.raw[laneOf{schemas.Pairs, lane}] {
			if p, ok := e.rec.(*schemas.Pair); ok && e.offset >= w.here.cut[laneOf{schemas.Pairs, lane}] {
				images[p.ImageID] = p.ID
			}
		}
	}
	k := a.A + a.B // the site's own images are some of those that come later
	image := schemas.NewImageID([]byte(picture(w.t, byte(7*(k%(siteTars*imagesPerTar))))))
	if len(images) > 0 && a.B%3 > 0 {
		image = slices.SortedFunc(maps.Keys(images), func(x, y schemas.ImageID) int { return slices.Compare(x[:], y[:]) })[k%len(images)]
	}
	name, flag := hex.EncodeToString(image[:]), "--image-sha256"
	if pair, ok := images[image]; ok && a.B%3 == 1 {
		name, flag = hex.EncodeToString(pair[:]), "--pair"
	}
	list := filepath.Join(w.dir, "names")
	w.check(os.WriteFile(list, []byte(name+"\n"), 0o600))
	args := []string{"forget", flag, list}
	if a.A%3 == 0 {
		args = append(args, "--erase-copies")
	}
	w.must(args...)
	w.here.gone[image] = true
	log := w.connect(w.here)
	defer log.Close()
	set, err := forget.Open(w.t.Context(), log)
	w.check(err)
	if !set.Image(image) {
		w.fatalf("pairstream %v has not taken image %x back", args, image[:])
	}
}

// noteStart notes the knowledge of a stage that starts while no other instance of it runs: which images are forgotten, and
// Con-D.
func (w *world) noteStart(stage string) {
	s := w.here
	if stage != "discriminator" && len(s.gone) == len(s.knows[stage]) {
		return
	}
	w.read(s)
	ends := maps.Clone(s.next)
	if stage == "discriminator" {
		s.models = append(s.models, modelFrom{w.env["COND_CHECKPOINT"], ends})
	}
	if s.knows[stage] == nil {
		s.knows[stage] = make(map[schemas.ImageID]map[laneOf]int64)
	}
	for image := range s.gone {
		if s.knows[stage][image] == nil {
			s.knows[stage][image] = ends
		}
	}
}

// knew reports whether the stage that wrote a record knew that an image is forgotten.
func (b *books) knew(topic schemas.Topic, e entryOf, image schemas.ImageID) bool {
	at := laneOf{topic, b.lane}
	from, known := b.s.knows[writers[topic]][image]
	return known && e.offset >= from[at] && len(b.s.old[at]) == 0
}

// forgottenImages wants no forgotten image in the records of a stage that knew of it.
func (b *books) forgottenImages() {
	samples := make(map[key][]schemas.Sample)
	for _, e := range b.sequence(schemas.Embeddings) {
		if r, ok := e.rec.(*schemas.Embedding); ok && b.knew(schemas.Embeddings, e, r.ImageID) {
			b.problem("pair %s was embedded at offset %d, after its image was forgotten", r.ID, e.offset)
		}
	}
	for _, e := range b.sequence(schemas.Scored) {
		r, ok := e.rec.(*schemas.ScoredBatch)
		if !ok {
			continue
		}
		samples[key{r.Group.Seq, r.Epoch, r.Sequence}] = r.Samples
		if r.M > 0 {
			b.masked(schemas.Scored, e, r.Samples, r.Masked)
		}
	}
	for _, e := range b.sequence(schemas.Features) {
		if r, ok := e.rec.(*schemas.FeatureBlock); ok {
			b.masked(schemas.Features, e, samples[key{r.Group.Seq, r.Epoch, r.Sequence}], r.Masked)
		}
	}
}

// masked wants a mask for every sample whose image is forgotten.
func (b *books) masked(topic schemas.Topic, e entryOf, samples []schemas.Sample, masks []schemas.Mask) {
	for i := range samples {
		image := samples[i].ImageID
		if b.knew(topic, e, image) && !slices.ContainsFunc(masks, func(m schemas.Mask) bool { return m.Sample == int32(i) && !m.Positive }) {
			b.problem("%s: the record at offset %d has sample %d, whose image %x was forgotten, and no mask", topic, e.offset, i, image[:])
		}
	}
}

// eraseCopies erases the copies of forgotten images, and wants none of them that records of the log lead to. Nobody
// looks into a log with another number of lanes.
func (w *world) eraseCopies(s *space) {
	if len(s.gone) == 0 || w.here != s {
		return
	}
	if out, err := w.command("forget", "--erase-copies"); err != nil {
		if s.doomed == "" || !strings.Contains(err.Error(), "partitions: LANES=") {
			w.fatalf("pairstream forget --erase-copies: %v\n%s", err, out)
		}
		return
	}
	images := make(map[schemas.PairID]schemas.ImageID)
	for lane := range worldLanes {
		for _, e := range s.raw[laneOf{schemas.Embeddings, lane}] {
			if r, ok := e.rec.(*schemas.Embedding); ok {
				images[r.ID] = r.ImageID
			}
		}
	}
	for lane := range worldLanes {
		at := laneOf{schemas.Neighbors, lane}
		for _, e := range s.raw[at] {
			c, ok := e.rec.(*schemas.NeighborChunk)
			if !ok || e.offset < s.cut[at] { // nothing leads to the copies of records that are gone
				continue
			}
			for i := range c.Members() {
				if ref, copied := c.Copy(i); copied && s.gone[images[c.ID(i)]] && w.holds(ref) {
					w.fatalf("image %x was forgotten, and its copy is in %s at %d", ref.Copy[:], ref.URI, ref.Offset)
				}
			}
		}
	}
}

// holds reports whether the bytes of a copy are where its reference says.
func (w *world) holds(ref schemas.ImageRef) bool {
	place, err := url.Parse(ref.URI)
	w.check(err)
	file, err := os.Open(place.Path)
	if os.IsNotExist(err) {
		return false
	}
	w.check(err)
	defer file.Close()
	data, err := io.ReadAll(io.NewSectionReader(file, ref.Offset, ref.Size))
	w.check(err)
	sum := sha256.Sum256(data)
	return schemas.ImageID(sum[:16]) == ref.Copy
}

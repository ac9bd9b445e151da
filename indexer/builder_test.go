package indexer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/float16rows"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// nouns takes every word of four letters and more for a noun.
type nouns struct{}

func (nouns) Nouns(caption string) []string {
	var found []string
	for word := range strings.FieldsSeq(strings.ToLower(caption)) {
		if len(word) >= 4 {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

const dim = 24

var things = []string{"beach", "bicycle", "bridge", "castle", "forest", "horse", "kitchen", "train"}

// lane makes n embeddings around eight things; perImage pairs in a row share an image.
func lane(seed uint64, n, perImage int) []*schemas.Embedding {
	r := rng.New(seed, "lane")
	around := func(thing int, spread float64) []float32 {
		row, norm := make([]float32, dim), 0.0
		for j := range row {
			row[j] = float32(spread * r.NormFloat64() / math.Sqrt(dim))
			if j == thing {
				row[j]++
			}
			norm += float64(row[j]) * float64(row[j])
		}
		for j := range row {
			row[j] /= float32(math.Sqrt(norm))
		}
		return row
	}
	out := make([]*schemas.Embedding, n)
	var image []float32
	thing := 0
	for i := range out {
		if i%perImage == 0 {
			thing = r.IntN(len(things))
			image = around(thing, 0.5)
		}
		e := &schemas.Embedding{
			Caption: fmt.Sprintf("a %s by the %s no %d", things[thing], things[r.IntN(len(things))], i),
			Image:   schemas.ImageRef{URI: "file:///x.tar", Size: 1},
			V:       schemas.NewFloat16s(image), T: schemas.NewFloat16s(around(thing, 0.7)), Model: "m1",
		}
		binary.LittleEndian.PutUint64(e.ImageID[:], seed<<32+uint64(i/perImage)+1)
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
		e.Similarity = float32(knn.Score(e.V.Floats(), e.T.Floats()))
		out[i] = e
	}
	return out
}

func options() indexer.Options {
	o := indexer.DefaultOptions()
	o.GroupSize, o.K2, o.Clusters, o.MinCount, o.Seed = 500, 50, 12, 10, 42
	return o
}

func newBuilder(t *testing.T, o indexer.Options, engine knn.Engine) *indexer.Builder {
	t.Helper()
	b := must.Get(indexer.NewBuilder(schemas.GroupID{Lane: 3, Seq: 7}, o, engine, nouns{}, nil))(t)
	t.Cleanup(func() { must.Check(t, b.Free()) })
	return b
}

// add adds an embedding and demands a verdict.
func add(t *testing.T, b *indexer.Builder, e *schemas.Embedding, seq int64, want indexer.Verdict) {
	t.Helper()
	got := must.Get(b.Add(e, seq))(t)
	if got != want {
		t.Fatalf("adding seq %d: verdict %d, want %d", seq, got, want)
	}
}

func closeGroup(t *testing.T, b *indexer.Builder, why indexer.Reason) *indexer.Group {
	t.Helper()
	g := must.Get(b.Close(context.Background(), why))(t)
	return g
}

// encoded returns the bytes of a group's records.
func encoded(t *testing.T, g *indexer.Group) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, c := range g.Chunks {
		raw := must.Get(schemas.Marshal(c))(t)
		out.Write(raw)
	}
	raw := must.Get(schemas.Marshal(g.Manifest))(t)
	return append(out.Bytes(), raw...)
}

// build makes one sealed group.
func build(t *testing.T, o indexer.Options, engine knn.Engine, pairs []*schemas.Embedding) *indexer.Group {
	t.Helper()
	b := newBuilder(t, o, engine)
	for i, e := range pairs {
		must.Get(b.Add(e, int64(i)))(t)
	}
	return closeGroup(t, b, indexer.BySeal)
}

func TestOneGroup(t *testing.T) {
	before := float16rows.Live()
	o := options()
	o.GroupSize = 2000
	pairs := lane(1, 1500, 3)
	g := build(t, o, cpu.Engine{}, pairs)
	m := g.Manifest
	low, high := pairs[0].Similarity, pairs[0].Similarity
	for _, e := range pairs {
		low, high = min(low, e.Similarity), max(high, e.Similarity)
	}
	want := schemas.Group{
		Group: schemas.GroupID{Lane: 3, Seq: 7}, EndSeq: 1500, Count: 1500, Chunks: 2, Dim: dim, Clusters: 12,
		MinSimilarity: low, MaxSimilarity: high, Nouns: slices.Sorted(slices.Values(things)), Model: "m1", Closed: "seal", K: 10, K1: 5,
		K2: 50, P: 0.3, MinCount: 10, Modality: "image", Digest: m.Digest,
	}
	if fmt.Sprintf("%+v", *m) != fmt.Sprintf("%+v", want) {
		t.Errorf("manifest\n%+v, want\n%+v", *m, want)
	}
	objects, sameThing := 0, 0
	for _, c := range g.Chunks {
		for i := range c.Members() {
			at := int(c.Start) + i
			if c.ID(i) != pairs[at].ID {
				t.Fatalf("member %d is %s, want %s", at, c.ID(i), pairs[at].ID)
			}
			for _, j := range c.SE[i*5 : (i+1)*5] {
				if j >= 0 && pairs[j].ImageID == pairs[at].ImageID {
					t.Fatalf("SE of %d has %d, a pair of the same image", at, j)
				}
			}
			for _, place := range c.Objects(i) {
				objects++
				if strings.Contains(pairs[at].Caption, "a "+m.Nouns[place]+" ") {
					sameThing++
				}
			}
		}
	}
	if objects < 1000 || sameThing*10 < objects*6 {
		t.Errorf("%d objects, %d of them what the picture shows", objects, sameThing)
	}
	if after := float16rows.Live(); after != before {
		t.Errorf("%d matrices live after, %d before", after, before)
	}
}

// A group may have fewer pairs than k, k1 and K: columns end in -1, clusters are as many as pairs, and a noun's share
// is that of the neighbours there are.
func TestGroupsSmallerThanTheirNumbers(t *testing.T) {
	for n := 1; n <= 4; n++ {
		o := options()
		o.MinCount, o.P = 0, 0.5
		pairs := lane(3, n, 1)
		for i, e := range pairs {
			e.Caption = fmt.Sprintf("a %s no %d", things[i/2], i) // the first thing twice
		}
		g := build(t, o, cpu.Engine{}, pairs)
		c := g.Chunks[0]
		if g.Manifest.Clusters != int32(n) || c.Members() != n || int(slices.Max(c.Cluster)) != n-1 {
			t.Errorf("%d pairs: %d clusters %v of %d members", n, g.Manifest.Clusters, c.Cluster, c.Members())
		}
		for i := range n {
			row := func(column []int32, k int) (real []int32) {
				full := column[i*k : (i+1)*k]
				end := slices.Index(full, -1)
				if end < 0 || slices.ContainsFunc(full[end:], func(j int32) bool { return j >= 0 }) {
					t.Fatalf("%d pairs: member %d has %v, want fewer, and -1 behind them", n, i, full)
				}
				return full[:end]
			}
			if texts := row(c.V2T, o.K); len(texts) != n {
				t.Errorf("%d pairs: image %d has the texts %v, want all", n, i, texts)
			}
			if se := row(c.SE, o.K1); len(se) != n-1 || slices.Contains(se, int32(i)) {
				t.Errorf("%d pairs: image %d has the equivalents %v, want all others", n, i, se)
			}
			var objects []string
			for _, place := range c.Objects(i) {
				objects = append(objects, g.Manifest.Nouns[place])
			}
			// Of 1, 2, 3, 4 neighbours the first thing has 1, 2, 2, 2: more than half, but for the last.
			want := []string{things[0]}
			if n == 4 {
				want = nil
			}
			if !slices.Equal(objects, want) {
				t.Errorf("%d pairs: image %d has the objects %v, want %v", n, i, objects, want)
			}
		}
	}
}

// TestSameGroupForAnyEngine: the bytes depend on nothing but the embeddings and the options.
func TestSameGroupForAnyEngine(t *testing.T) {
	for _, change := range []struct {
		name   string
		change func(*indexer.Options)
	}{
		{"images", func(*indexer.Options) {}},
		{"texts", func(o *indexer.Options) { o.Modality = indexer.Text }},
		{"same image kept", func(o *indexer.Options) { o.KeepSameImage = true }},
		{"more clusters than pairs", func(o *indexer.Options) { o.Clusters = 10_000 }},
	} {
		t.Run(change.name, func(t *testing.T) {
			o := options()
			change.change(&o)
			pairs := lane(2, 300, 2)
			want := encoded(t, build(t, o, reference.Engine{}, pairs))
			for _, threads := range []int{1, 3} {
				o.Threads = threads
				if got := encoded(t, build(t, o, cpu.Engine{}, pairs)); !bytes.Equal(got, want) {
					t.Errorf("with %d threads the records differ from the reference's", threads)
				}
			}
			o.Seed++
			if got := encoded(t, build(t, o, cpu.Engine{}, pairs)); bytes.Equal(got, want) && change.name != "more clusters than pairs" {
				t.Error("another seed gave the same records")
			}
		})
	}
}

func TestSameImageOption(t *testing.T) {
	o := options()
	pairs := lane(3, 200, 5)
	has := func(keep bool) bool {
		o.KeepSameImage = keep
		for _, c := range build(t, o, cpu.Engine{}, pairs).Chunks {
			for i, j := range c.SE {
				if j >= 0 && pairs[j].ImageID == pairs[i/5].ImageID {
					return true
				}
			}
		}
		return false
	}
	if has(false) {
		t.Error("SE holds pairs of the same image")
	}
	if !has(true) {
		t.Error("SE holds no pair of the same image although it was told to")
	}
}

func TestGroupsRoll(t *testing.T) {
	o := options()
	o.GroupSize, o.Window = 100, 0
	b := newBuilder(t, o, cpu.Engine{})
	pairs := lane(4, 350, 1)
	seq := int64(1000)
	if g := closeGroup(t, b, indexer.BySeal); g != nil {
		t.Fatalf("a group came of nothing: %+v", g.Manifest)
	}
	if _, ok := b.FirstSeq(); ok {
		t.Error("an empty builder has a first seq")
	}
	for i := range 99 {
		add(t, b, pairs[i], seq, indexer.Open)
		seq++
		add(t, b, pairs[i/2], seq, indexer.Open) // again
		seq++
	}
	if first, ok := b.FirstSeq(); !ok || first != 1000 || b.Pending() != 99 {
		t.Errorf("first seq %d, %d pending, want 1000 and 99", first, b.Pending())
	}
	add(t, b, pairs[99], seq, indexer.Complete)
	if _, err := b.Add(pairs[100], seq+1); err == nil {
		t.Error("a complete group took another pair")
	}
	m := closeGroup(t, b, indexer.ByCount).Manifest
	if m.Group.Seq != 7 || m.Count != 100 || m.Duplicates != 99 || m.FirstSeq != 1000 || m.EndSeq != seq+1 || m.Closed != "count" {
		t.Errorf("manifest %+v", *m)
	}
	// Without a window, a pair of the last group is new in this one.
	seq += 10
	add(t, b, pairs[0], seq, indexer.Open)
	for i := range 40 {
		seq++
		add(t, b, pairs[100+i], seq, indexer.Open)
	}
	other := *pairs[0]
	other.Model = "m2"
	add(t, b, &other, seq+1, indexer.NewModel)
	m = closeGroup(t, b, indexer.ByModel).Manifest
	if m.Group.Seq != 8 || m.Count != 41 || m.Duplicates != 0 || m.EndSeq != seq+1 || m.Closed != "model" || m.Model != "m1" {
		t.Errorf("manifest %+v", *m)
	}
	add(t, b, &other, seq+1, indexer.Open)
	m = closeGroup(t, b, indexer.BySeal).Manifest
	if m.Group.Seq != 9 || m.Count != 1 || m.Model != "m2" || m.Clusters != 1 || m.Closed != "seal" {
		t.Errorf("manifest %+v", *m)
	}
}

// TestAddingAgainGivesTheSameGroup crashes in the middle of the second group. A new builder of that group's id begins
// at its first seq and makes the same records, whatever stood there before.
func TestAddingAgainGivesTheSameGroup(t *testing.T) {
	const size, crash = 50, 80
	o := options()
	o.GroupSize = size
	pairs := lane(5, 2*size, 1)
	// run adds the pairs from seq on, closes what is full, and returns the groups and where a new builder has to begin.
	run := func(b *indexer.Builder, seq, end int64) (groups [][]byte, first int64) {
		for ; seq < end; seq++ {
			verdict := must.Get(b.Add(pairs[seq], seq))(t)
			if verdict == indexer.Complete {
				groups = append(groups, encoded(t, closeGroup(t, b, indexer.ByCount)))
			}
		}
		first, _ = b.FirstSeq()
		return groups, first
	}
	whole, _ := run(newBuilder(t, o, cpu.Engine{}), 0, 2*size)

	crashed := newBuilder(t, o, cpu.Engine{})
	before, first := run(crashed, 0, crash)
	next := crashed.Next()
	must.Do(t, crashed.Free())
	if first != size {
		t.Fatalf("the open group begins at seq %d, want %d", first, size)
	}
	resumed := must.Get(indexer.NewBuilder(next, o, cpu.Engine{}, nouns{}, nil))(t)
	after, _ := run(resumed, first, 2*size)
	if got := slices.Concat(before, after); !slices.EqualFunc(got, whole, bytes.Equal) {
		t.Errorf("%d and then %d groups with other records than the %d of a run without a crash", len(before), len(after), len(whole))
	}
}

func TestCloseCanBeCalledAgain(t *testing.T) {
	pairs := lane(6, 80, 1)
	want := encoded(t, build(t, options(), cpu.Engine{}, pairs))
	b := newBuilder(t, options(), cpu.Engine{})
	for i, e := range pairs {
		add(t, b, e, int64(i), indexer.Open)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Close(ctx, indexer.BySeal); !errors.Is(err, context.Canceled) {
		t.Fatalf("closing while stopped: %v", err)
	}
	if got := encoded(t, closeGroup(t, b, indexer.BySeal)); !bytes.Equal(got, want) {
		t.Error("the records differ after a close that was stopped")
	}
}

func TestAddRefuses(t *testing.T) {
	b := newBuilder(t, options(), cpu.Engine{})
	pairs := lane(7, 10, 1)
	add(t, b, pairs[0], 5, indexer.Open)
	narrow, uneven, empty := *pairs[1], *pairs[1], *pairs[1]
	narrow.V, narrow.T = narrow.V[:8], narrow.T[:8]
	uneven.T = uneven.T[:8]
	empty.V, empty.T = nil, nil
	for name, e := range map[string]*schemas.Embedding{"another width": &narrow, "two widths": &uneven, "no vectors": &empty} {
		if _, err := b.Add(e, 6); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%s: %v, want an invalid record", name, err)
		}
		if _, err := newBuilder(t, options(), cpu.Engine{}).Add(e, 6); name != "another width" && !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%s first: %v, want an invalid record", name, err)
		}
	}
	if _, err := b.Add(pairs[1], 5); err == nil || errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("a seq for the second time: %v", err)
	}
	add(t, b, pairs[1], 6, indexer.Open)
	if m := closeGroup(t, b, indexer.BySeal).Manifest; m.Count != 2 {
		t.Errorf("%d pairs, want 2", m.Count)
	}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	bad := indexer.Options{K: 0, K1: -1, K2: 0, Modality: "sound", P: math.NaN(), MinCount: -1, Threads: -1}
	names := []string{"GroupSize", "K is", "K1", "K2", "Clusters", "Iterations", "Modality", "P is NaN", "MinCount", "Threads"}
	wants(t, bad.Validate(), names)
	wants(t, indexer.LiveOptions{KeepGroups: -1}.Validate(), []string{"KeepGroups", "TailRows", "Recall"})
	if _, err := indexer.NewBuilder(schemas.GroupID{}, bad, cpu.Engine{}, nouns{}, nil); err == nil {
		t.Error("a builder was made with bad options")
	}
}

// wants demands that an error names all of the settings.
func wants(t *testing.T, err error, names []string) {
	t.Helper()
	for _, name := range names {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no word of %q in %v", name, err)
		}
	}
}

func TestDefaultsAreInRange(t *testing.T) {
	must.Check(t, errors.Join(indexer.DefaultOptions().Validate(), indexer.DefaultLiveOptions().Validate()))
}

// hostileCaptions gives every pair a caption of 8 KB of words that many others share, 130 of them each.
func hostileCaptions(pairs []*schemas.Embedding) {
	for i, e := range pairs {
		var b strings.Builder
		for j := range 130 {
			fmt.Fprintf(&b, "%s%07d ", strings.Repeat("x", 53), i/12*130+j)
		}
		e.Caption = b.String()
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	}
}

// TestRecordsStayBelowTheLeastLimit has captions that would make a vocabulary of 1.5 MB, and chunks of several.
func TestRecordsStayBelowTheLeastLimit(t *testing.T) {
	const least = 1 << 20 // a topic takes records of this size whatever the settings say
	pairs := lane(9, 2048, 1)
	hostileCaptions(pairs)
	o := options()
	o.GroupSize, o.P = len(pairs), 0
	g := build(t, o, cpu.Engine{}, pairs)
	records := []schemas.Record{g.Manifest}
	for _, c := range g.Chunks {
		records = append(records, c)
	}
	for _, r := range records {
		raw := must.Get(schemas.Marshal(r))(t)
		if len(raw) > least || int64(len(raw)) > o.LargestRecord() {
			t.Errorf("%s of %d bytes, want at most %d and %d", r.Schema(), len(raw), least, o.LargestRecord())
		}
	}
	o.K, o.K1 = 1000, 1000
	if got := o.LargestRecord(); got < 8<<20 || got > 9<<20 {
		t.Errorf("a chunk with a thousand neighbours has at most %d bytes, want 8 to 9 MiB", got)
	}
	if len(g.Manifest.Nouns) < 5000 || g.Chunks[0].Objects(0) == nil {
		t.Errorf("%d nouns, objects %d: the bound left too little", len(g.Manifest.Nouns), g.Chunks[0].Objects(0))
	}
}

// TestTheMostFrequentNounsStay shares one word among all captions: it stays in the vocabulary and in every obj(v).
func TestTheMostFrequentNounsStay(t *testing.T) {
	pairs := lane(10, 2048, 1)
	hostileCaptions(pairs)
	for _, e := range pairs {
		e.Caption = "zebra " + e.Caption[:7900]
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	}
	o := options()
	o.GroupSize, o.P = len(pairs), 0
	g := build(t, o, cpu.Engine{}, pairs)
	at, ok := slices.BinarySearch(g.Manifest.Nouns, "zebra")
	if !ok {
		t.Fatal("the noun of every caption is not in the vocabulary")
	}
	for i := range g.Chunks[0].Members() {
		if !slices.Contains(g.Chunks[0].Objects(i), int32(at)) {
			t.Fatalf("the noun of all neighbours is no object of pair %d", i)
		}
	}
}

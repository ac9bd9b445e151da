package grouper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func allOptions() map[string]Options {
	encoder := testOptions(StrategyGRIT)
	encoder.Features = SourceEncoder
	whole := testOptions(StrategyGRIT)
	whole.QueueSize, whole.SearchSpace = 0, 0
	plain := testOptions(StrategyRandom)
	plain.Candidates, plain.Texts = 0, TextNone
	return map[string]Options{
		"random": testOptions(StrategyRandom), "random without candidates": plain, "gns": testOptions(StrategyGNS),
		"jest": testOptions(StrategyJEST), "b3": testOptions(StrategyB3), "grit": testOptions(StrategyGRIT), "grit on the encoder": encoder, "grit on the whole group": whole,
	}
}

// twoGroups returns a log with two groups, one of them of more than one chunk, and seals around them.
func twoGroups() *log {
	l := newLog()
	l.add(schemas.Groups, &schemas.Seal{Note: "before"})
	l.addGroup(0, 203, 5)
	l.add(schemas.Embeddings, &schemas.Seal{Note: "between"})
	l.add(schemas.Groups, &schemas.Seal{Note: "between"})
	l.addGroup(2, schemas.ChunkMembers+5, 1)
	l.add(schemas.Embeddings, &schemas.Seal{Final: true})
	l.add(schemas.Groups, &schemas.Seal{Final: true})
	return l
}

func TestLaneEmitsEveryEpochOfEveryGroup(t *testing.T) {
	for name, o := range allOptions() {
		t.Run(name, func(t *testing.T) {
			l := twoGroups()
			lane := newTestLane(t, o)
			out := drive(t, lane, l)
			if !lane.BetweenGroups() {
				t.Error("the lane is not between groups at the end")
			}
			wire(t, out) // checks every record
			first, last := out[0].(*schemas.Seal), out[len(out)-1].(*schemas.Seal)
			if first.Note != "before" || first.Final || !last.Final || len(out) != 3+len(batches(out)) {
				t.Errorf("seals are not passed on in their places: %v ... %v", first, last)
			}
			rest := batches(out)
			for _, group := range []struct{ seq, pairs int }{{0, 203}, {2, schemas.ChunkMembers + 5}} {
				for epoch := range o.Epochs {
					n := o.batches(epoch, group.pairs)
					checkEpoch(t, o, rest[:n], group.seq, epoch, group.pairs)
					rest = rest[n:]
				}
			}
			if len(rest) > 0 {
				t.Errorf("%d batches too many", len(rest))
			}
		})
	}
}

func checkEpoch(t *testing.T, o Options, epoch []*schemas.Batch, seq, number, pairs int) {
	t.Helper()
	var positions []int32
	for i, b := range epoch {
		if b.Group != (schemas.GroupID{Lane: testLane, Seq: int64(seq)}) || int(b.Epoch) != number || int(b.Sequence) != i ||
			int(b.Batches) != len(epoch) || b.Strategy != string(o.formedBy(number)) || int(b.M) != o.Candidates {
			t.Fatalf("batch %d of epoch %d of group %d is labelled %s, epoch %d, %d of %d, %s, m = %d",
				i, number, seq, b.Group, b.Epoch, b.Sequence, b.Batches, b.Strategy, b.M)
		}
		for _, s := range b.Samples {
			positions = append(positions, s.Position)
		}
	}
	kept := pairs
	if o.Strategy == StrategyJEST && number > 0 {
		kept = pairs/16*8 + (pairs%16+1)/2 // half of each super-batch of 16
	}
	slices.Sort(positions)
	if n := len(slices.Compact(slices.Clone(positions))); n != kept || len(positions) != kept || positions[0] < 0 || int(positions[kept-1]) >= pairs {
		t.Errorf("epoch %d of group %d has %d pairs, %d of them different, want %d of %d", number, seq, len(positions), n, kept, pairs)
	}
}

// TestSamples holds the samples against the embeddings and chunks that they were made of.
func TestSamples(t *testing.T) {
	const n, captions = 240, 5
	o := testOptions(StrategyRandom)
	l := newLog()
	g := l.addGroup(0, n, captions)
	chunk := l.records[schemas.Neighbors][0].(*schemas.NeighborChunk)
	pairs := map[schemas.PairID]*schemas.Embedding{}
	byPosition := make([]*schemas.Embedding, n)
	for _, r := range l.records[schemas.Embeddings] {
		pairs[r.(*schemas.Embedding).ID] = r.(*schemas.Embedding)
	}
	for i := range byPosition {
		byPosition[i] = pairs[chunk.ID(i)]
	}
	replaced, positives, different := 0, 0, map[string]bool{}
	for _, b := range batches(drive(t, newTestLane(t, o), l)) {
		alpha := Alpha(int(b.Epoch), o.Epochs, float64(g.MinSimilarity), float64(g.MaxSimilarity))
		for i, s := range b.Samples {
			e := byPosition[s.Position]
			if s.ID != e.ID || s.ImageID != e.ImageID || s.Image != e.Image {
				t.Fatalf("sample %d is %s, %s, %v, want %s, %s, %v", s.Position, s.ID, s.ImageID, s.Image, e.ID, e.ImageID, e.Image)
			}
			wantText, due := e.Caption, float64(e.Similarity) <= alpha
			if due && s.Position%4 != 0 { // pairs with a position of 4k have no objects
				wantText = []string{"", "dog", "dog grass", "dog grass man"}[s.Position%4]
			}
			if s.Text != wantText || s.Replaced != (wantText != e.Caption) {
				t.Errorf("epoch %d: pair %d has the text %q, replaced %t, want %q", b.Epoch, s.Position, s.Text, s.Replaced, wantText)
			}
			if s.Replaced {
				replaced++
			}
			for j, other := range b.Samples {
				if partner := slices.Contains(s.Partners, int32(j)); partner != (i != j && other.ImageID == s.ImageID) {
					t.Errorf("batch %d: sample %d has the partners %d", b.Sequence, i, s.Partners)
				}
			}
			var allowed []schemas.Positive
			for _, j := range chunk.SE[3*s.Position : 3*s.Position+3] {
				if j >= 0 && byPosition[j].ImageID != s.ImageID {
					allowed = append(allowed, schemas.Positive{ImageID: byPosition[j].ImageID, Image: byPosition[j].Image})
				}
			}
			switch {
			case s.Positive == nil && len(allowed) > 0, s.Positive != nil && !slices.Contains(allowed, *s.Positive):
				t.Errorf("pair %d has the positive %v, want one of %v", s.Position, s.Positive, allowed)
			case s.Positive != nil:
				positives++
				different[fmt.Sprint(s.Position, s.Positive.ImageID)] = true
			}
		}
	}
	if replaced == 0 || positives < 200 || len(different) <= positives/o.Epochs {
		t.Errorf("%d texts replaced, %d positives, %d different: the test says nothing", replaced, positives, len(different))
	}
}

// TestGRITGroupsByTheFeaturesOfTheEpochBefore plans every epoch anew, from the features that went in.
func TestGRITGroupsByTheFeaturesOfTheEpochBefore(t *testing.T) {
	const n = 203
	o := testOptions(StrategyGRIT)
	l := newLog()
	g := l.addGroup(0, n, 5)
	all := batches(drive(t, newTestLane(t, o), l))
	image := make([]int32, n)
	v, tt := make([]schemas.Float16s, n), make([]schemas.Float16s, n)
	for _, r := range l.records[schemas.Embeddings] {
		e := r.(*schemas.Embedding)
		var i int
		must.Get(fmt.Sscanf(e.Caption, "caption %d", &i))(t)
		v[i], tt[i], image[i] = e.V, e.T, int32(i/5)
	}
	order := permutation(n, Key{o.Seed, g.Group, 0}.generator("collecting order"))
	for epoch := range o.Epochs {
		a, b := rounded(v, tt)
		key := Key{o.Seed, g.Group, epoch}
		plan := must.Get(GRIT(context.Background(), order, rows{a, b}, image, GRITRule{BatchSize: o.BatchSize, QueueSize: o.QueueSize, SearchSpace: o.SearchSpace, Workers: 1}, key.Draws()))(t)
		for i := range plan.Batches() {
			batch := all[0]
			all = all[1:]
			var got []int32
			for _, s := range batch.Samples {
				got = append(got, s.Position)
			}
			if want := plan.Batch(i); !slices.Equal(got, want) {
				t.Fatalf("epoch %d, batch %d: pairs %d, want %d", epoch, i, got, want)
			}
			checkCandidates(t, batch, rows{a, b}, image, o.Candidates)
			for row, block := 0, train(batch); row < len(got); row++ { // for the epoch after
				v[got[row]], tt[got[row]] = block.V[2*trainDim*row:][:2*trainDim], block.T[2*trainDim*row:][:2*trainDim]
			}
		}
		order = plan.Order
	}
}

func checkCandidates(t *testing.T, b *schemas.Batch, f Features, image []int32, m int) {
	t.Helper()
	var pairs, images []int32
	for _, s := range b.Samples {
		pairs, images = append(pairs, s.Position), append(images, image[s.Position])
	}
	v, tt := read(f, pairs)
	if !slices.Equal(b.I2T, hardByDefinition(v, tt, images, m)) || !slices.Equal(b.T2I, hardByDefinition(tt, v, images, m)) {
		t.Errorf("epoch %d, batch %d: candidates %d and %d are not the hardest", b.Epoch, b.Sequence, b.I2T, b.T2I)
	}
}

func TestLaneIsAFunctionOfItsRecords(t *testing.T) {
	for name, o := range allOptions() {
		t.Run(name, func(t *testing.T) {
			want := wire(t, drive(t, newTestLane(t, o), twoGroups()))
			o.Workers = 3
			if got := wire(t, drive(t, newTestLane(t, o), twoGroups())); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Error("a second run, with more workers, emits other records")
			}
			o.Seed++
			if got := wire(t, drive(t, newTestLane(t, o), twoGroups())); slices.EqualFunc(got, want, bytes.Equal) {
				t.Error("another seed emits the same records")
			}
		})
	}
}

// TestLaneStartsAgainBetweenGroups begins the second group with a new Lane, at the positions where the first one was
// between groups: features of the first group's last epoch are still to come.
func TestLaneStartsAgainBetweenGroups(t *testing.T) {
	for name, o := range allOptions() {
		t.Run(name, func(t *testing.T) {
			want := wire(t, drive(t, newTestLane(t, o), twoGroups()))
			l := twoGroups()
			groups := l.records[schemas.Groups]
			l.records[schemas.Groups] = groups[:3]
			got := drive(t, newTestLane(t, o), l)
			l.records[schemas.Groups] = groups
			got = append(got, drive(t, newTestLane(t, o), l)...)
			if !slices.EqualFunc(wire(t, got), want, bytes.Equal) {
				t.Error("the second group's records are others after a new start")
			}
		})
	}
}

// Batches of the lane's last group count down to its end. Those before do not know it.
func TestLeftCountsDown(t *testing.T) {
	for strategy, total := range map[Strategy]int{StrategyGRIT: 3 * 4, StrategyJEST: 3 + 2*3} {
		t.Run(string(strategy), func(t *testing.T) { leftCountsDown(t, testOptions(strategy), total) })
	}
}

func leftCountsDown(t *testing.T, o Options, total int) {
	l := newLog()
	l.addGroup(0, 40, 1)
	l.addGroup(1, 21, 1).Final = true
	var last []int64
	for _, b := range batches(drive(t, newTestLane(t, o), l)) {
		if b.Group.Seq == 0 && b.Left != 0 {
			t.Errorf("batch %d of epoch %d of the first group has %d left", b.Sequence, b.Epoch, b.Left)
		} else if b.Group.Seq == 1 {
			last = append(last, b.Left)
		}
	}
	if len(last) != total {
		t.Fatalf("the last group has %d batches, want %d", len(last), total)
	}
	for i, left := range last {
		if want := int64(len(last) - i); left != want {
			t.Errorf("batch %d of the last group has %d left, want %d", i, left, want)
		}
	}
}

func TestLaneKeepsWhatTheTrainerLeftOut(t *testing.T) {
	o := testOptions(StrategyGRIT)
	o.Epochs, o.Texts = 3, TextNone
	l := newLog()
	l.addGroup(0, 40, 1)
	lane := newTestLane(t, o)
	emitted := 0
	for {
		topic := lane.Needs()
		if l.next[topic] == len(l.records[topic]) {
			break
		}
		in := l.input(topic, l.next[topic])
		l.next[topic]++
		must.Do(t, lane.Add(context.Background(), in, func(r schemas.Record) error {
			f := train(r.(*schemas.Batch))
			f.Positions, f.V, f.T = f.Positions[1:], f.V[2*trainDim:], f.T[2*trainDim:]
			l.add(schemas.Features, f)
			emitted++
			return nil
		}))
	}
	if want := 3 * 5; emitted != want || !lane.BetweenGroups() {
		t.Errorf("%d batches, want %d", emitted, want)
	}
}

func TestLanePassesErrorsOn(t *testing.T) {
	full := errors.New("disk full")
	for name, ctxErr := range map[string]bool{"emit": false, "context": true} {
		l := newLog()
		l.addGroup(0, 100, 1)
		lane := newTestLane(t, testOptions(StrategyGRIT))
		ctx, cancel := context.WithCancel(context.Background())
		if ctxErr {
			cancel()
		}
		var err error
		for err == nil {
			topic := lane.Needs()
			seq := l.next[topic]
			l.next[topic]++
			err = lane.Add(ctx, l.input(topic, seq), func(schemas.Record) error { return full })
		}
		if want := map[bool]error{false: full, true: context.Canceled}[ctxErr]; !errors.Is(err, want) || errors.Is(err, ErrUnexpected) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		cancel()
	}
}

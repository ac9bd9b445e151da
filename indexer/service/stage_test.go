package service

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/log/accounting"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/onelane"
	"github.com/pairstream/pairstream/schemas"
)

type words struct{}

func (words) Nouns(caption string) []string {
	found := strings.Fields(caption)
	slices.Sort(found)
	return slices.Compact(found)
}

func testOptions() indexer.Options {
	o := indexer.DefaultOptions()
	o.GroupSize, o.K, o.K1, o.K2, o.Clusters, o.MinCount, o.Window, o.Seed = 7, 3, 2, 5, 2, 0, 12, 5
	return o
}

func spec(t *testing.T, o indexer.Options) stream.StageSpec { return copying(t, o, nil) }

// asking returns the stage with the segments of closed groups.
func asking(t *testing.T, o indexer.Options, s *segments) stream.StageSpec {
	return newSpec(t, o, nil, s)
}

// copying returns the stage with what copies images.
func copying(t *testing.T, o indexer.Options, copies *copier) stream.StageSpec {
	return newSpec(t, o, copies, nil)
}

func newSpec(t *testing.T, o indexer.Options, copies *copier, asked *segments) stream.StageSpec {
	t.Helper()
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	return stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
		New: newFactory(o, cpu.Engine{}, words{}, nil, nil, copies, asked, instruments, newFill(o.GroupSize), newRepeated()),
	}
}

// embedding returns that of pair i, by a model.
func embedding(i int, model string) *schemas.Embedding {
	const dim = 4
	r := rng.New(9, "indexer adapter", int64(i))
	at, sign := r.IntN(dim), float32(1-2*r.IntN(2))
	one := func(at int, sign float32) schemas.Float16s {
		row := make([]float32, dim)
		row[at] = sign
		return schemas.NewFloat16s(row)
	}
	e := &schemas.Embedding{
		ImageID: schemas.NewImageID(fmt.Appendf(nil, "image %d", i)), Caption: fmt.Sprintf("a dog no%d", i%3),
		Image: schemas.ImageRef{URI: "file:///a.tar", Size: 9}, V: one(at, sign), T: one(at, sign), Similarity: 1, Model: model,
	}
	e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	return e
}

// newLog returns a lane with groups that close by count, by a seal and by a new model, repeats within and across
// groups, some of them between groups and before a seal, a record that is no embedding, and records behind a final
// seal.
func newLog(t *testing.T) *onelane.Log {
	t.Helper()
	l := onelane.New(t, 1)
	add := func(model string, pairs ...int) {
		for _, i := range pairs {
			l.Append(schemas.Embeddings, embedding(i, model))
		}
	}
	add("m", 0, 1, 2, 2, 3, 4, 5, 6) // a group, with a duplicate
	add("m", 3, 4, 7, 8, 5, 9)       // repeats before and within an open group
	l.Append(schemas.Embeddings, &schemas.Seal{Note: "one", ID: "one"})
	l.Append(schemas.Embeddings, &schemas.Seal{Note: "one", ID: "one"})
	add("m", 8, 7)
	l.Append(schemas.Embeddings, &schemas.Seal{Note: "repeats only"})
	add("m", 10, 11, 12)
	add("n", 13, 11, 14, 15, 16) // a new model, and a repeat by it
	l.Append(schemas.Embeddings, &schemas.Progress{Kind: schemas.ProgressEval})
	add("n", 17, 18, 19, 0, 1) // 0 and 1 are beyond the window
	l.Append(schemas.Embeddings, &schemas.Seal{Final: true})
	add("n", 20)
	l.Append(schemas.Embeddings, &schemas.Seal{Final: true})
	return l
}

// groupsOf returns the manifests and seals of a log, in a word each.
func groupsOf(l *onelane.Log) []string {
	var out []string
	for _, r := range l.Records(schemas.Groups) {
		switch g := r.(type) {
		case *schemas.Group:
			last := map[bool]string{true: ", final"}[g.Final]
			out = append(out, fmt.Sprintf("%d: %d..%d, %d pairs, %d+%d left out, %s%s", g.Group.Seq, g.FirstSeq, g.EndSeq, g.Count, g.Duplicates, g.Repeats, g.Closed, last))
		case *schemas.Seal:
			out = append(out, fmt.Sprintf("seal, final %t, %d repeats", g.Final, g.Repeats))
		}
	}
	return out
}

func TestGroupsOfALane(t *testing.T) {
	l := newLog(t)
	l.Run(spec(t, testOptions()), -1)
	want := []string{
		"0: 0..8, 7 pairs, 1+0 left out, count",
		"1: 8..14, 3 pairs, 0+3 left out, seal",
		"seal, final false, 0 repeats",
		"seal, final false, 2 repeats",
		"2: 19..22, 3 pairs, 0+0 left out, model",
		"3: 22..31, 7 pairs, 0+1 left out, count",
		"4: 31..33, 2 pairs, 0+0 left out, seal, final",
		"seal, final true, 0 repeats",
	}
	if got := groupsOf(l); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var letters []string
	for _, letter := range l.Letters {
		letters = append(letters, fmt.Sprintf("%d %s", letter.Seq, strings.SplitN(letter.Reason, ":", 2)[0]))
	}
	if want := []string{"15 repeated seal", "27 foreign record", "34 behind a final seal", "35 behind a final seal"}; !slices.Equal(letters, want) {
		t.Errorf("letters %q, want %q", letters, want)
	}
}

// TestTalliesAddUp accounts for every record before the place of a mark.
func TestTalliesAddUp(t *testing.T) {
	l := newLog(t)
	l.Run(spec(t, testOptions()), -1)
	for i, raw := range l.States(schemas.Groups) {
		tally, from, err := accounting.OfMark(raw)
		if err != nil || tally == nil || tally.Since != 0 || tally.Records() != from {
			t.Errorf("record %d: the tally %+v counts %d records, want %d (%v)", i, tally, tally.Records(), from, err)
		}
	}
	states := l.States(schemas.Groups)
	last, from, _ := accounting.OfMark(states[len(states)-1])
	if want := (accounting.Tally{Members: 22, Duplicates: 1, Repeats: 6, Seals: 3, Others: 2}); from != 34 || fmt.Sprint(*last) != fmt.Sprint(want) {
		t.Errorf("at %d the tally is %+v, want %+v at 34", from, *last, want)
	}
}

// TestNearDuplicatesAreAccounted drops them. What is in a group, what came again and what was left out add up to the
// lane.
func TestNearDuplicatesAreAccounted(t *testing.T) {
	for _, policy := range []string{indexer.CountImages, indexer.DropImages} {
		o := testOptions()
		o.NearImage, o.NearCosine = policy, 0.9
		l := newLog(t)
		l.Run(spec(t, o), -1)
		near := 0
		for _, r := range l.Records(schemas.Neighbors) {
			near += len(r.(*schemas.NeighborChunk).NearTo)
		}
		left := 0
		if policy == indexer.DropImages {
			left = near
		}
		states := l.States(schemas.Groups)
		last, from, err := accounting.OfMark(states[len(states)-1])
		want := accounting.Tally{Members: 22 - int64(left), Duplicates: 1, Repeats: 6, Near: int64(near), LeftOut: int64(left), Seals: 3, Others: 2}
		if near == 0 || err != nil || fmt.Sprint(*last) != fmt.Sprint(want) || last.Records() != from {
			t.Errorf("%s: the tally is %+v, %v; want %+v, and %d records", policy, *last, err, want, from)
		}
	}
}

// TestNoCrashChangesAGroup kills the owner before each record that it writes, takes away the last records of each
// output that the brokers had not acknowledged, and kills its successor as well.
func TestNoCrashChangesAGroup(t *testing.T) {
	for name, set := range map[string]func(*indexer.Options){
		"window of a group and a half": func(*indexer.Options) {},
		"a narrow window":              func(o *indexer.Options) { o.Window = 3 },
		"none":                         func(o *indexer.Options) { o.Window = 0 },
		"near-duplicates are dropped":  func(o *indexer.Options) { o.NearImage, o.NearCosine = indexer.DropImages, 0.9 },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			set(&o)
			whole := newLog(t)
			whole.Run(spec(t, o), -1)
			written := whole.Len(schemas.Neighbors) + whole.Len(schemas.Groups)
			for limit := range written {
				for chunks := range 3 {
					for groups := range 3 {
						l := newLog(t)
						if !l.Run(spec(t, o), limit) {
							t.Fatalf("the owner did not die before record %d", limit)
						}
						l.Cut(schemas.Neighbors, chunks)
						l.Cut(schemas.Groups, groups)
						l.Run(spec(t, o), 2)
						l.Run(spec(t, o), -1)
						for _, topic := range []schemas.Topic{schemas.Neighbors, schemas.Groups} {
							if !slices.EqualFunc(l.Values(topic), whole.Values(topic), bytes.Equal) {
								t.Fatalf("a crash before record %d, without the last %d and %d, changed %s:\n%s", limit, chunks, groups, topic,
									strings.Join(groupsOf(l), "\n"))
							}
						}
						if !slices.EqualFunc(l.States(schemas.Groups), whole.States(schemas.Groups), bytes.Equal) {
							t.Fatalf("a crash before record %d changed what the marks say", limit)
						}
						if !slices.Equal(l.Letters, whole.Letters) {
							t.Fatalf("a crash before record %d: letters %v, want %v", limit, l.Letters, whole.Letters)
						}
					}
				}
			}
		})
	}
}

// TestNoCrashChangesAGroupOfChunks is the same between the chunks of a group.
func TestNoCrashChangesAGroupOfChunks(t *testing.T) {
	o := testOptions()
	o.GroupSize, o.Window = schemas.ChunkMembers+5, 100
	fresh := func() *onelane.Log {
		l := onelane.New(t, 1)
		for i := range 2*o.GroupSize + 3 {
			l.Append(schemas.Embeddings, embedding(i, "m"))
		}
		return l
	}
	whole := fresh()
	whole.Run(spec(t, o), -1)
	if got := whole.Len(schemas.Neighbors); got != 4 {
		t.Fatalf("%d chunks, want 4", got)
	}
	for limit := range 6 {
		l := fresh()
		l.Run(spec(t, o), limit)
		l.Run(spec(t, o), -1)
		for _, topic := range []schemas.Topic{schemas.Neighbors, schemas.Groups} {
			if !slices.EqualFunc(l.Values(topic), whole.Values(topic), bytes.Equal) {
				t.Errorf("a crash before record %d changed %s", limit, topic)
			}
		}
	}
}

// TestSettingsChangeAtAGroupsBorder kills the owner before each record and starts anew with other settings. A group of
// which something is published is finished as it was begun. Its digest is that of its chunks, and no embedding is lost.
func TestSettingsChangeAtAGroupsBorder(t *testing.T) {
	for name, change := range map[string]func(*indexer.Options){
		"fewer neighbours": func(o *indexer.Options) { o.K1 = 1 },
		"larger groups":    func(o *indexer.Options) { o.GroupSize = 9 },
		"smaller groups":   func(o *indexer.Options) { o.GroupSize = 4 },
		"another seed":     func(o *indexer.Options) { o.Seed = 6 },
		"more clusters":    func(o *indexer.Options) { o.Clusters = 4 },
		"near-duplicates":  func(o *indexer.Options) { o.NearImage, o.NearCosine = indexer.CountImages, 0.9 },
		"threads only":     func(o *indexer.Options) { o.Threads = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := testOptions(), testOptions()
			change(&after)
			whole := newLog(t)
			whole.Run(spec(t, before), -1)
			for limit := range whole.Len(schemas.Neighbors) + whole.Len(schemas.Groups) {
				l := newLog(t)
				l.Run(spec(t, before), limit)
				begun := l.Len(schemas.Neighbors) // a chunk a group
				l.Run(spec(t, after), -1)
				got, want := l.Values(schemas.Neighbors), whole.Values(schemas.Neighbors)
				if !slices.EqualFunc(got[:begun], want[:begun], bytes.Equal) {
					t.Errorf("stopped before record %d: the first %d groups are others", limit, begun)
				}
				checkGroups(t, l, begun, before, after)
			}
		})
	}
}

// checkGroups holds manifests against chunks, and wants all embeddings of the lane in their ranges.
func checkGroups(t *testing.T, l *onelane.Log, begun int, before, after indexer.Options) {
	t.Helper()
	chunks := l.Records(schemas.Neighbors)
	pairs, number := int32(0), 0
	for _, r := range l.Records(schemas.Groups) {
		g, ok := r.(*schemas.Group)
		if !ok {
			continue
		}
		o := after
		if number < begun {
			o = before
		}
		c := chunks[number].(*schemas.NeighborChunk)
		if int(g.Group.Seq) != number || g.K1 != int32(o.K1) || c.K1 != g.K1 || c.Group != g.Group || int(g.Count) > o.GroupSize {
			t.Errorf("group %d has %d pairs, k1 = %d, its chunk %d; want those of %+v", number, g.Count, g.K1, c.K1, o)
		}
		pairs += g.Count
		number++
	}
	if number != len(chunks) || pairs != 22 {
		t.Errorf("%d groups with %d pairs, and %d chunks; want 22 pairs and a chunk each", number, pairs, len(chunks))
	}
}

// TestStateOfMarks pins what is in the marks: a new owner reads it, and one of a newer version.
func TestStateOfMarks(t *testing.T) {
	o := testOptions()
	o.Threads = 8
	tally := accounting.Tally{Since: 7, Members: 60, Filtered: map[string]int64{"safe": 10}}
	raw := must.Get(state{300, more{From: 77, Final: true, Tally: &tally}}.encode(&o))(t)
	const options = `{"GroupSize":7,"K":3,"K1":2,"K2":5,"KeepSameImage":false,"Clusters":2,"Iterations":20,"Modality":"image","P":0.3,` +
		`"MinCount":0,"Window":12,"Seed":5,"Threads":0}`
	if want := "\xac\x02" + `{"from":77,"final":true,"tally":{"since":7,"members":60,"duplicates":0,"repeats":0,"filtered":{"safe":10},"seals":0,"others":0},"options":` + options + `}`; string(raw) != want {
		t.Errorf("the state is\n%q\nwant\n%q", raw, want)
	}
	got, err := parseState(raw)
	if err != nil || got.next != 300 || got.more.From != 77 || !got.more.Final {
		t.Errorf("read %+v, %v", got, err)
	}
	if old, err := parseState(binary.AppendUvarint(nil, 5)); err != nil || old.next != 5 || old.more.From != 0 || old.more.Final || old.more.Options != nil {
		t.Errorf("the state of an older indexer: %+v, %v", old, err)
	}
	for name, bad := range map[string]string{
		"no number":            "\xff",
		"no JSON":              "\x05{",
		"of a newer indexer":   "\x05" + `{"options":{"Colour":1}}`,
		"options out of range": "\x05" + `{"options":{"Window":12}}`,
		"another window":       "\x05" + `{"options":` + strings.Replace(options, `"Window":12`, `"Window":13`, 1) + `}`,
	} {
		if _, err := spec(t, testOptions()).New(3, []byte(bad)); err == nil || !strings.Contains(err.Error(), "lane 3") {
			t.Errorf("%s: %v, want an error that names the lane", name, err)
		}
	}
}

func TestWaiting(t *testing.T) {
	made := must.Get(spec(t, testOptions()).New(3, nil))(t)
	if got, want := made.(interface{ Waiting() string }).Waiting(), "embedding 0 of 7 of group 3/0, or a seal"; got != want {
		t.Errorf("the lane waits for %q, want %q", got, want)
	}
}

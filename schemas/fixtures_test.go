package schemas

import (
	"bytes"
	"math"
	"strings"
)

// The fixtures make a new valid record at every call, so that a test may spoil it. They are also the expected values
// of the golden bytes. A change here must keep the golden files decoding to them.

var fixtureImage = []byte("\xff\xd8\xff\xe0 stands for a JPEG file")

func fixtureRef() ImageRef {
	return ImageRef{URI: "s3://crawl/2024/00017.tar", Offset: 1536, Size: 48_211}
}

func pairByRef() *Pair {
	ref := fixtureRef()
	image := NewImageID([]byte("an image in the bucket"))
	const caption = "zwei Hunde spielen am Strand – 狗"
	return &Pair{
		ID: NewPairID(image, caption), ImageID: image, Image: &ref, Caption: caption,
		Source: "https://example.org/strand.html", CrawlTime: 1_700_000_000_123,
	}
}

func pairMeta() *Pair {
	p := pairByRef()
	p.Meta = Columns{
		"width": int64(640), "height": int64(480), "punsafe": 0.03125, "whole": 2.0, "sample_id": int64(math.MinInt64), "id": int64(math.MaxInt64),
		"nsfw": "UNLIKELY", "empty": "", "watermark": false, "kept": true, "Überschrift": "Strand – 狗",
	}
	return p
}

func pairInline() *Pair {
	image := NewImageID(fixtureImage)
	return &Pair{ID: NewPairID(image, "a red cup"), ImageID: image, Inline: bytes.Clone(fixtureImage), Caption: "a red cup"}
}

// unit returns rows one-hot vectors of dim values, the i-th with its 1 (or -1) at from+i.
func unit(rows, dim, from int, sign float32) Float16s {
	values := make([]float32, rows*dim)
	for r := range rows {
		values[r*dim+(from+r)%dim] = sign
	}
	return NewFloat16s(values)
}

func embedding() *Embedding {
	p := pairByRef()
	return &Embedding{
		ID: p.ID, ImageID: p.ImageID, Image: *p.Image, Caption: p.Caption,
		V: NewFloat16s([]float32{0.6, 0.8, 0, 0}), T: NewFloat16s([]float32{0.8, 0.6, 0, 0}), Similarity: 0.96, Model: "5e1f0c0ffee15bad",
	}
}

func refusal() *Refusal {
	p := pairByRef()
	return &Refusal{ID: p.ID, ImageID: p.ImageID, Reason: MaskMissing}
}

func refusalFiltered() *Refusal {
	r := refusal()
	r.Reason, r.Rule, r.Detail = MaskFiltered, "safe", "no such key: punsafe"
	return r
}

func neighborChunk() *NeighborChunk {
	var ids []byte
	for _, caption := range []string{"one", "two", "three"} {
		id := NewPairID(NewImageID(fixtureImage), caption)
		ids = append(ids, id[:]...)
	}
	return &NeighborChunk{
		Group: GroupID{Lane: 3, Seq: 70_000}, Start: ChunkMembers, IDs: ids,
		K: 2, V2T: Int32s{1025, 0, 1024, -1, 5, 1025}, K1: 2, SE: Int32s{-1, -1, 1024, -1, 5, 6},
		Cluster: Int32s{0, 999, 7}, ObjEnd: Int32s{2, 2, 3}, Obj: Int32s{0, 4, 2},
	}
}

func group() *Group {
	return &Group{
		Group: GroupID{Lane: 3, Seq: 70_000}, FirstSeq: 5_000_000_000, EndSeq: 5_000_001_031, Count: 1027, Duplicates: 3,
		Chunks: 2, Dim: 512, Clusters: 1000, MinSimilarity: -0.25, MaxSimilarity: 0.875, Nouns: []string{"ball", "dog", "strand"},
		Model: "5e1f0c0ffee15bad", Closed: ClosedByCount, K: 10, K1: 5, K2: 500, P: 0.3, MinCount: 10, Modality: ModalityImage,
		Digest: bytes.Repeat([]byte{0xab}, 32),
	}
}

func groupFinal() *Group {
	g := groupBare()
	g.Final = true
	return g
}

func batchLast() *Batch {
	b := batchOfOne()
	b.Left, b.Again = 70_000, true
	return b
}

func groupRepeats() *Group {
	g := group()
	g.EndSeq, g.Repeats = g.EndSeq+300, 300
	return g
}

func neighborChunkNear() *NeighborChunk {
	c := neighborChunk()
	for _, caption := range []string{"four", "five"} {
		id := NewPairID(NewImageID(fixtureImage), caption)
		c.Near = append(c.Near, id[:]...)
	}
	c.NearTo, c.NearCosine = Int32s{0, 1025}, Floats32{0.953125, 1}
	return c
}

// neighborChunkCopies has copies of the first and the last member's images.
func neighborChunkCopies() *NeighborChunk {
	c := neighborChunk()
	for _, i := range []int{0, 2} {
		c.SetCopy(i, fixtureCopy(int64(i)))
	}
	return c
}

func fixtureCopy(i int64) ImageRef {
	copied := NewImageID([]byte{'c', byte(i)})
	return ImageRef{URI: "s3://crawl/copies/group-00003-00070000-0011223344556677/00001.tar", Offset: 512 + 20_480*i, Size: 19_000 + i, Copy: copied}
}

// batchCopies has a copy of each image but the first.
func batchCopies() *Batch {
	b := batch()
	for i := range b.Samples[1:3] {
		b.Samples[i+1].Image = fixtureCopy(int64(i))
	}
	b.Samples[2].Positive.Image = fixtureCopy(7)
	return b
}

// neighborChunkOutside has equivalent images of other groups, and a near-duplicate of one.
func neighborChunkOutside() *NeighborChunk {
	c := neighborChunk()
	far := fixtureRef()
	far.URI, far.Offset = "s3://crawl/00017.tar", 5<<33+512
	c.SetOutside([][]Positive{{{NewImageID([]byte("like one")), fixtureRef()}}, nil, {{NewImageID([]byte("like three")), far}, {NewImageID([]byte("and this")), fixtureRef()}}})
	id, to := NewPairID(NewImageID(fixtureImage), "four"), NewImageID([]byte("like four"))
	c.OutNear, c.OutNearTo, c.OutNearCosine = id[:], to[:], Floats32{0.984375}
	return c
}

func groupAsked() *Group {
	g := group()
	g.Scope, g.Asked = ScopeCrawl, []GroupID{{Lane: 3, Seq: 69_999}, {Lane: 0, Seq: 70_000}}
	return g
}

func groupNear() *Group {
	g := group()
	g.EndSeq, g.Near, g.LeftOut = g.EndSeq+40, 40, 40
	return g
}

func groupSameImage() *Group {
	g := groupRepeats()
	g.SameImage = 200
	return g
}

// batch has four samples. The first and the last show the same image.
func batch() *Batch {
	b := &Batch{
		Group: GroupID{Lane: 3, Seq: 70_000}, Epoch: 2, Sequence: 1, Batches: 9, Strategy: StrategyGNS, M: 2,
		I2T: Int32s{1, 2, 0, -1, 3, 0, 2, 1}, T2I: Int32s{2, 1, 3, 2, -1, -1, 1, 2},
	}
	for i, caption := range []string{"a dog runs", "a cat", "two cups", "the dog is running"} {
		image := NewImageID([]byte{byte(i % 3)})
		ref := fixtureRef()
		ref.Offset += int64(i) << 33
		b.Samples = append(b.Samples, Sample{
			ID: NewPairID(image, caption), ImageID: image, Image: ref, Text: caption, Position: int32(i) * 100_000,
		})
	}
	b.Samples[0].Partners, b.Samples[3].Partners = Int32s{3}, Int32s{0}
	b.Samples[1].Text, b.Samples[1].Replaced = "cat sofa", true
	b.Samples[2].Positive = &Positive{ImageID: NewImageID([]byte("like two cups")), Image: fixtureRef()}
	return b
}

func scoredBatch() *ScoredBatch {
	return &ScoredBatch{
		Batch: *batch(), Model: "c0de00000000c0de",
		ProbI2T: Floats32{0.5, 0.25, 1, 0, 0.8, 0.125, 0, 0.75}, ProbT2I: Floats32{0.9375, 0.5, 0.25, 0.125, 0, 0, 1, 0},
	}
}

// scoredMasked has no image of sample 1, which is replaced, and none of sample 2's positive.
func scoredMasked() *ScoredBatch {
	s := scoredBatch()
	s.Masked = []Mask{{Sample: 1, Reason: MaskMissing}, {Sample: 2, Positive: true, Reason: MaskChanged}}
	for k := range s.I2T {
		if k/2 == 1 || s.I2T[k] == 1 {
			s.ProbI2T[k] = 0
		}
		if k/2 == 1 || s.T2I[k] == 1 {
			s.ProbT2I[k] = 0
		}
	}
	return s
}

func featuresMasked() *FeatureBlock {
	f := featureBlock()
	f.Masked = []Mask{{Sample: 0, Reason: MaskForbidden}, {Sample: 0, Positive: true, Reason: MaskUnusable}}
	return f
}

func featureBlock() *FeatureBlock {
	return &FeatureBlock{
		Group: GroupID{Lane: 3, Seq: 70_000}, Epoch: 2, Sequence: 1, Positions: Int32s{0, 100_000, 200_000}, Dim: 4,
		V: unit(3, 4, 0, 1), T: unit(3, 4, 2, -1), Step: 1 << 40,
	}
}

func progress() *Progress {
	return &Progress{
		Kind: ProgressStep, Step: 1200, Values: Measures{"loss_itm": 0.3125, "loss_itc": 2.5, "learning_rate": 1e-4, "tr_r1": 0},
		Time: 1_700_000_000_123,
	}
}

func judgement() *Judgement {
	b := batch()
	return &Judgement{
		Group: b.Group, Image: b.Samples[0].ID, Text: b.Samples[2].ID, Probability: 0.9375, Sample: SampleRandom, Verdict: VerdictMatch,
		Time: 1_700_000_000_123,
	}
}

// judgementOf is of a Con-D that has a name.
func judgementOf(model string) *Judgement {
	j := judgement()
	j.Model = model
	return j
}

// scoredConfirmed has a check that is open and lists what it confirms.
func scoredConfirmed() *ScoredBatch {
	b := batch()
	b.M, b.I2T, b.T2I = 0, nil, nil
	return &ScoredBatch{Batch: *b, Model: "c0de00000000c0de", Check: &Check{
		Positives: 3, AUC: 0.5, Least: 0.4, Open: true, Precision: &Precision{Above: 0.75, High: 1, Confirmed: 0.25, Candidates: 8},
		Confirmed: &Confirmed{Image: Int32s{0, 2}, Text: Int32s{1, 0}, Probability: Floats32{0.875, 0.9375}},
	}}
}

// scoredJudged has a check in which people have a say.
func scoredJudged() *ScoredBatch {
	return &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de", High: 0.75, Check: &Check{
		Positives: 288, AUC: 0.96875, Least: 0.4,
		Precision: &Precision{Above: 0.75, Value: 0.25, Low: 0.125, High: 0.375, Base: 0.0625, Confirmed: 0.078125, Candidates: 1152, Negatives: 1063, Judged: 40, Right: 10},
	}}
}

// fixtures returns the golden records by name. Add to them, and never take one away.
func fixtures() map[string]Record {
	return map[string]Record{
		"pair-by-reference": pairByRef(),
		"pair-inline":       pairInline(),
		"pair-meta":         pairMeta(),
		"pair-long-caption": longCaption(),
		"seal":              &Seal{},
		"seal-final":        &Seal{Final: true, Note: "end of the crawl of May"},
		"seal-id":           &Seal{Final: true, ID: "1f2e3d4c5b6a7988"},
		"seal-repeats":      &Seal{Final: true, Repeats: 70_000},
		"embedding":         embedding(),
		"embedding-minus":   embeddingMinus(),
		"refusal":           refusal(),
		"refusal-filtered":  refusalFiltered(),
		"neighbor-chunk":    neighborChunk(),
		"neighbor-chunk-bare": &NeighborChunk{
			Group: GroupID{}, IDs: neighborChunk().IDs[:16], Cluster: Int32s{0}, ObjEnd: Int32s{0},
		},
		"neighbor-chunk-near":    neighborChunkNear(),
		"neighbor-chunk-copies":  neighborChunkCopies(),
		"neighbor-chunk-outside": neighborChunkOutside(),
		"group-asked":            groupAsked(),
		"batch-copies":           batchCopies(),
		"group-near":             groupNear(),
		"group":                  group(),
		"group-bare":             groupBare(),
		"group-repeats":          groupRepeats(),
		"group-same":             groupSameImage(),
		"batch":                  batch(),
		"group-final":            groupFinal(),
		"batch-of-one":           batchOfOne(),
		"batch-left":             batchLast(),
		"scored-batch":           scoredBatch(),
		"scored-bare":            &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de"},
		"scored-masked":          scoredMasked(),
		"scored-drawn":           &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de", Drawn: "seed 7, crop 0.5, flip 0.5, color 0.2"},
		"scored-ruled-out":       scoredRuledOut(),
		"scored-check":           &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de", Check: &Check{Positives: 256, AUC: 0.53125, Least: 0.55}},
		"scored-open":            &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de", Check: &Check{Positives: 96, AUC: 0.8125, Least: 0.55, Open: true}},
		"scored-precision": &ScoredBatch{Batch: *batchOfOne(), Model: "c0de00000000c0de", High: 0.75, Check: &Check{
			Positives: 288, AUC: 0.96875, Least: 0.4,
			Precision: &Precision{Above: 0.75, Value: 0.75, Low: 0.5, High: 0.875, Base: 0.0625, Confirmed: 0.078125, Candidates: 1152, Negatives: 1063},
		}},
		"scored-confirmed": scoredConfirmed(),
		"scored-judged":    scoredJudged(),
		"feature-block":    featureBlock(),
		"feature-masked":   featuresMasked(),
		"progress-step":    progress(),
		"progress-bare":    &Progress{Kind: ProgressEval},
		"progress-saved":   &Progress{Kind: ProgressCheckpoint, Step: math.MaxInt64, Checkpoint: "/data/checkpoints/step-1200"},
		"progress-values":  manyValues(),
		"judgement":        judgement(),
		"judgement-model":  judgementOf("c0de00000000c0de"),
	}
}

func longCaption() *Pair {
	p := pairInline()
	p.Caption = strings.Repeat("ä", MaxCaptionBytes/2)
	p.ID = NewPairID(p.ImageID, p.Caption)
	return p
}

func embeddingMinus() *Embedding {
	e := embedding()
	e.V, e.T, e.Similarity = unit(1, 300, 7, 1), unit(1, 300, 7, -1), -1
	return e
}

func groupBare() *Group {
	g := group()
	g.Group, g.FirstSeq, g.EndSeq, g.Duplicates = GroupID{}, 0, 1, 0
	g.Count, g.Chunks, g.Clusters, g.Nouns, g.Closed, g.Modality = 1, 1, 1, nil, ClosedBySeal, ModalityText
	return g
}

func batchOfOne() *Batch {
	b := batch()
	b.Samples, b.M, b.I2T, b.T2I, b.Strategy = b.Samples[2:3], 0, nil, nil, StrategyRandom
	return b
}

func manyValues() *Progress {
	p := &Progress{Kind: ProgressEval, Values: Measures{}}
	for i := range 40 {
		p.Values[strings.Repeat("n", i+1)] = float64(i) / 8
	}
	return p
}

// scoredRuledOut has two candidates, of which Con-D's vectors have ruled one out.
func scoredRuledOut() *ScoredBatch {
	s := scoredBatch()
	s.ProbI2T[0], s.RuledOut, s.Masked = 0, 1, nil
	return s
}

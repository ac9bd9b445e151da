package feedback

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/decision"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Place is the point in a lane at which it reads judgements, and the model that they concern.
type Place struct {
	Lane  int     `json:"lane"`
	Group int64   `json:"group"`
	Epoch int32   `json:"epoch"`
	Model string  `json:"model"` // fingerprint of Con-D
	Above float64 `json:"above"` // threshold of connections
}

// Count is the number of judged connections, valid from a place on.
type Count struct {
	Place
	Judged int `json:"judged"`
	Right  int `json:"right"` // of these: matches
}

// Notes reads and writes the decisions recorded in a log.
var Notes = decision.Kind[Place, Count]{
	Prefix: "judgements/counted/", About: "notes about judgements", Place: func(c Count) Place { return c.Place },
	Compare: func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Above, b.Above))
	},
}

// Take returns the count for a place. If there is none yet, it notes the current count.
func Take(ctx context.Context, log *stream.Log, p Place) (Count, error) {
	return Notes.Take(ctx, log, p, func(ctx context.Context) (Count, error) { return tally(ctx, log, p) })
}

// pair is the subject of a judgement.
type pair struct{ image, text schemas.PairID }

// verdict is the latest verdict on a pair.
type verdict struct{ random, match bool }

// tally counts the judgements in the log on a place's Con-D, of all lanes: they are random samples of one crawl. A pair
// counts if it was judged as one of the random sample, with its latest verdict. Undecodable records are skipped.
func tally(ctx context.Context, log *stream.Log, p Place) (Count, error) {
	if found, err := log.Has(ctx, schemas.Judgements); err != nil || !found { // a log that is older than the topic has none
		return Count{Place: p}, err
	}
	said := make(map[pair]verdict)
	for rec, err := range log.Records(ctx, schemas.Judgements, 0, stream.Position{}, -1) {
		if err != nil {
			return Count{}, fmt.Errorf("reading what people say of connections: %w", err)
		}
		j, ok := stream.As[*schemas.Judgement](rec)
		if !ok || j.Model != p.Model || j.Probability <= float32(p.Above) {
			continue
		}
		key := pair{j.Image, j.Text}
		if j.Verdict == schemas.VerdictNone {
			delete(said, key)
			continue
		}
		said[key] = verdict{said[key].random || j.Sample == schemas.SampleRandom, j.Verdict == schemas.VerdictMatch}
	}
	c := Count{Place: p}
	for _, v := range said {
		if !v.random {
			continue
		}
		c.Judged++
		if v.match {
			c.Right++
		}
	}
	return c, nil
}

package index

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/pairstream/pairstream/schemas"
)

// Said is what a person says of a text of another image.
type Said struct {
	Image, Text schemas.PairID
	Probability float64 // Con-D's
	Match       bool
}

const saidQuery = "SELECT image, text, prob, match FROM judgement WHERE "

func (x *Index) said(ctx context.Context, where string, args ...any) ([]Said, error) {
	var list []Said
	err := each(ctx, x, func(rows *sql.Rows) error {
		var image, text []byte
		var s Said
		if err := rows.Scan(&image, &text, &s.Probability, &s.Match); err != nil {
			return err
		}
		s.Image, s.Text = schemas.PairID(image), schemas.PairID(text)
		list = append(list, s)
		return nil
	}, saidQuery+where, args...)
	return list, err
}

// RandomlyJudged lists what people say of the random samples of all groups, of one Con-D.
func (x *Index) RandomlyJudged(ctx context.Context, model string) ([]Said, error) {
	return x.said(ctx, "random AND model = ? ORDER BY prob DESC, image, text", model)
}

// Disagreements lists the connections of a group that people call no match, first those of which Con-D is most certain.
func (x *Index) Disagreements(ctx context.Context, id schemas.GroupID, from, count int) ([]Said, error) {
	return x.said(ctx, "lane = ? AND seq = ? AND NOT match ORDER BY prob DESC, image, text LIMIT ? OFFSET ?", id.Lane, id.Seq, count, from)
}

// Check returns what the guard of connections says in a group: the latest of the group, or of an earlier one of its lane. nil: it
// has said nothing.
func (x *Index) Check(ctx context.Context, id schemas.GroupID) (*schemas.Check, error) {
	var raw []byte
	found, err := one(ctx, x, []any{&raw}, "SELECT checked FROM grp WHERE lane = ? AND seq <= ? AND checked IS NOT NULL ORDER BY seq DESC LIMIT 1", id.Lane, id.Seq)
	if err != nil || !found {
		return nil, err
	}
	var c schemas.Check
	return &c, json.Unmarshal(raw, &c)
}

// Model returns the fingerprint of the Con-D whose connections a group has, the latest; empty: it has none.
func (x *Index) Model(ctx context.Context, group int64) (string, error) {
	var model string
	_, err := one(ctx, x, []any{&model}, "SELECT model FROM connection WHERE grp = ? ORDER BY epoch DESC, batch DESC LIMIT 1", group)
	return model, err
}

// Asked returns what Con-D said of a connection that the index keeps, and the Con-D's fingerprint.
func (x *Index) Asked(ctx context.Context, group int64, image, text int32) (p float32, model string, err error) {
	found, err := one(ctx, x, []any{&p, &model}, "SELECT prob, model FROM connection WHERE grp = ? AND image = ? AND text = ? LIMIT 1", group, image, text)
	if err == nil && !found {
		err = ErrNotFound
	}
	return p, model, err
}

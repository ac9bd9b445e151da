package shard

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// listing is a store that lists so many objects of each kind.
type listing struct {
	Catalog
	tars, tables, others int
}

func (l listing) List(_ context.Context, each func(Object)) error {
	for i := range l.others {
		each(Object{Name: fmt.Sprint(i, ".jpg")})
	}
	for i := range l.tars {
		each(Object{Name: fmt.Sprint(i, ".tar")})
	}
	for i := range l.tables {
		each(Object{Name: fmt.Sprint(i, ".parquet")})
	}
	return nil
}

func (listing) Close() error { return nil }

// TestListingsAreBounded lists stores that a stranger may write to. What is no tar and no table takes no room.
func TestListingsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		store listing
		want  int
		wrong string
	}{
		"as many as may be":    {listing{tars: 2, tables: 2, others: 100}, 2, ""},
		"a tar more":           {listing{tars: 3, tables: 2}, 0, "name prefixes below it"},
		"a table more":         {listing{tars: 1, tables: 4}, 0, "name prefixes below it"},
		"other things alone":   {listing{others: 100}, 0, ErrNoTars.Error()},
		"many more than there": {listing{tars: 10_000}, 0, "name prefixes below it"},
	} {
		f := &Found{room: 4}
		tars, err := f.inStore(t.Context(), "s3://bucket/crawl/", func(context.Context, *url.URL) (Objects, error) { return c.store, nil })
		must.Check(t, f.Close())
		if len(tars) != c.want || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %d tars, %v, want %d, %q", name, len(tars), err, c.want, c.wrong)
		}
	}
}

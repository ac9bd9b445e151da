package shard_test

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

func TestPairsCarryTheColumnsOfKeyJSON(t *testing.T) {
	many := func(text string) (string, schemas.Columns) {
		var members []string
		want := schemas.Columns{}
		for i := range schemas.MaxColumns + 9 {
			name := fmt.Sprintf("c%02d", i)
			members = append(members, fmt.Sprintf("%q:%q", name, text))
			if len(want) < schemas.MaxColumns && (len(want)+1)*(3+len(text)) <= schemas.MaxColumnsBytes {
				want[name] = text
			}
		}
		return "{" + strings.Join(members, ",") + "}", want
	}
	manyShort, wantShort := many("x")
	manyLong, wantLong := many(strings.Repeat("x", 400))
	for _, c := range []struct {
		name, json string
		want       schemas.Columns
	}{
		{"no object", `[1]`, nil},
		{"nothing but fields of a pair", `{"caption":"a","CAPTIONS":["b"],"Url":"http://x/"}`, nil},
		{"img2dataset", `{"width":640,"similarity":0.3125,"status":"success","error_message":null,"exif":{"a":1},"ok":true}`, schemas.Columns{
			"width": int64(640), "similarity": 0.3125, "status": "success", "ok": true,
		}},
		{"numbers", `{"a":9223372036854775807,"b":9223372036854775808,"c":-0,"d":2.0,"e":1e999,"f":1e3}`, schemas.Columns{
			"a": int64(math.MaxInt64), "b": float64(1 << 63), "c": int64(0), "d": 2.0, "f": 1000.0,
		}},
		{"no text", "{\"a\":\"\xff\",\"\xff\":1,\"b\":\"\\ud800\",\"c\":\"\"}", schemas.Columns{"c": ""}},
		{"too long", `{"a":"` + strings.Repeat("x", schemas.MaxColumnText+1) + `","` + strings.Repeat("k", schemas.MaxColumnName+1) + `":1,"":2,"b":3}`, schemas.Columns{"b": int64(3)}},
		{"as many as there may be", manyShort, wantShort},
		{"as large as they may be", manyLong, wantLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			pairs := shard.Pairs(shard.Example{Key: "k", ImageID: schemas.NewImageID([]byte("i")), Image: schemas.ImageRef{URI: "file:///a.tar", Size: 1}, Captions: []string{"one", "two"}, Meta: []byte(c.json)})
			bare := shard.Pairs(shard.Example{Key: "k", ImageID: pairs[0].ImageID, Image: *pairs[0].Image, Captions: []string{"one", "two"}})
			for i, p := range pairs {
				if !reflect.DeepEqual(p.Meta, c.want) {
					t.Errorf("columns %v, want %v", p.Meta, c.want)
				}
				if p.ID != bare[i].ID {
					t.Errorf("the id is %s, and %s without columns", p.ID, bare[i].ID)
				}
				if _, err := schemas.Marshal(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestScannedPairsCarryColumns(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.tar", buildTar(t, member{name: "a.png", data: picture(t, 1)}, member{name: "a.txt", data: "a cup"}, member{name: "a.json", data: `{"punsafe":0.5}`}))
	got := 0
	_, err := shard.Scan(t.Context(), []string{filepath.Join(dir, "a.tar")}, shard.Visitor{
		Example: func(ex shard.Example) error {
			got++
			if want := (schemas.Columns{"punsafe": 0.5}); !reflect.DeepEqual(shard.Pairs(ex)[0].Meta, want) {
				t.Errorf("columns %v, want %v", shard.Pairs(ex)[0].Meta, want)
			}
			return nil
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("a problem: %+v", p) },
	})
	if err != nil || got != 1 {
		t.Errorf("%d examples, error %v", got, err)
	}
}

package schemas

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestColumnsValidate(t *testing.T) {
	set := func(columns Columns) func(*Pair) { return func(p *Pair) { p.Meta = columns } }
	many := func(n, bytes int) Columns {
		out := Columns{}
		for i := range n {
			out[fmt.Sprintf("%04d", i)] = strings.Repeat("x", bytes)
		}
		return out
	}
	checkSpoiled(t, pairByRef, []spoiled[Pair]{
		{"none", set(nil), ""},
		{"empty", set(Columns{}), ""},
		{"of every type", set(Columns{"a": int64(1), "b": 0.5, "c": "", "d": true}), ""},
		{"most", set(many(MaxColumns, 0)), ""},
		{"too many", set(many(MaxColumns+1, 0)), "65 columns"},
		{"longest name", set(Columns{strings.Repeat("n", MaxColumnName): true}), ""},
		{"name too long", set(Columns{strings.Repeat("n", MaxColumnName+1): true}), "name of a column has 65 bytes"},
		{"no name", set(Columns{"": true}), "name of a column is empty"},
		{"name that is no UTF-8", set(Columns{"\xff": true}), "is not UTF-8"},
		{"longest text", set(Columns{"a": strings.Repeat("x", MaxColumnText)}), ""},
		{"text too long", set(Columns{"a": strings.Repeat("x", MaxColumnText+1)}), "column a has 1025 bytes"},
		{"text that is no UTF-8", set(Columns{"a": "\xff"}), "column a is not UTF-8"},
		{"as large as they may be", set(many(MaxColumnsBytes/128, 124)), ""},
		{"too large", set(func() Columns { c := many(MaxColumnsBytes/128, 124); c["0000"] = strings.Repeat("x", 125); return c }()), "columns of 8193 bytes"},
		{"not a number", set(Columns{"a": math.NaN()}), "column a is NaN"},
		{"infinite", set(Columns{"a": math.Inf(1)}), "column a is +Inf"},
		{"int", set(Columns{"a": 1}), "column a holds a int"},
		{"list", set(Columns{"a": []string{}}), "column a holds a []string"},
		{"nothing", set(Columns{"a": nil}), "column a holds a <nil>"},
	})
}

// TestColumnsOfOtherWriters decodes columns as writers of other languages may encode them.
func TestColumnsOfOtherWriters(t *testing.T) {
	p := pairByRef()
	p.Meta = Columns{"a": int64(3), "b": 0.5, "c": int64(-200), "d": int64(math.MaxInt64), "e": 2.0}
	got, err := Unmarshal(SchemaPair, edited(t, pairByRef(), func(m map[string]any) {
		m["meta"] = map[string]any{"a": uint8(3), "b": float32(0.5), "c": int64(-200), "d": uint64(math.MaxInt64), "e": 2.0}
	}))
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("decoded %+v (%v), want %+v", got, err, p)
	}
	for name, bad := range map[string]any{
		"a list": []any{1}, "a map": map[string]any{}, "bin": []byte("x"), "nil": nil, "more than int64": uint64(math.MaxUint64),
	} {
		if r, err := Unmarshal(SchemaPair, edited(t, pairByRef(), func(m map[string]any) { m["meta"] = map[string]any{"a": bad} })); err == nil {
			t.Errorf("a column that holds %s was decoded to %+v", name, r)
		}
	}
}

package console

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

// query reads the parameters of a request. err is the first that is wrong.
type query struct {
	*http.Request
	err error
}

func (q *query) number(name, text string, most int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if q.err == nil && (err != nil || n < 0 || n > most) {
		q.err = badRequest{fmt.Errorf("%s is %q, want a number from 0 to %d", name, clip(40, text), most)}
	}
	return n
}

// path reads a number of the path.
func (q *query) path(name string, most int64) int64 { return q.number(name, q.PathValue(name), most) }

// form reads a number of the query. An absent one is the fallback.
func (q *query) form(name string, fallback, most int64) int64 {
	if text := q.FormValue(name); text != "" {
		return q.number(name, text, most)
	}
	return fallback
}

// group reads the group that the path names.
func (q *query) group() schemas.GroupID {
	return schemas.GroupID{Lane: int32(q.path("lane", 1<<31-1)), Seq: q.path("seq", 1<<62)}
}

// pair reads the id of a pair.
func (q *query) pair(text string) schemas.PairID {
	id, err := schemas.ParsePairID(text)
	if q.err == nil && err != nil {
		q.err = badRequest{err}
	}
	return id
}

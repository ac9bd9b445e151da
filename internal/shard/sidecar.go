package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pairstream/pairstream/internal/table"
	"github.com/pairstream/pairstream/schemas"
)

// Limits on a table beside a tar. img2dataset writes 10,000 rows.
const (
	maxSidecarBytes = 1 << 30
	maxSidecarRows  = 1 << 18
)

// success is the status of a row whose image img2dataset has written.
const success = "success"

// stem returns the name of a tar or of the table beside it, without its extension.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// isSidecar reports whether a file may be the table beside a tar.
func isSidecar(name string) bool { return strings.EqualFold(path.Ext(name), ".parquet") }

var errNoKeys = errors.New(`the table has no column "key", as img2dataset writes it`)

// readSidecar reads the table beside the tar, by the key of the rows. It returns a problem when the table is none.
func (s *scanner) readSidecar(ctx context.Context, t Tar) error {
	if t.beside == nil {
		return nil
	}
	rows, err := loadSidecar(ctx, *t.beside)
	switch {
	case err == nil:
		s.rows = rows
		return nil
	case ctx.Err() != nil || errors.As(err, new(*passingError)):
		return err
	}
	s.totals.Problems[ReasonSidecar]++
	return s.v.Problem(Problem{URI: t.beside.URI, Reason: ReasonSidecar, Detail: "the pairs of the tar go without its columns: " + err.Error()})
}

func loadSidecar(ctx context.Context, t Tar) (map[string]table.Row, error) {
	src, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSidecarBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", size, maxSidecarBytes)
	}
	rows := make(map[string]table.Row)
	err = table.Parquet(ctx, src, size, func(r table.Row) error {
		key := r.Text("key")
		switch {
		case key == "":
			return errNoKeys
		case len(rows) == maxSidecarRows:
			return fmt.Errorf("it has more than %d rows", maxSidecarRows)
		}
		delete(r, "key")
		rows[path.Base(key)] = r
		return nil
	})
	return rows, err
}

// rowOf returns the row of a key.
func (s *scanner) rowOf(key string) schemas.Columns { return schemas.Columns(s.rows[path.Base(key)]) }

// rowCaption returns the caption of a row, for a key that has none in the tar.
func rowCaption(row schemas.Columns) []caption {
	if text, ok := row["caption"].(string); ok {
		return []caption{checkCaption([]byte(text))}
	}
	return nil
}

// statusFault returns why the crawl itself says that an image is none.
func statusFault(cur sample, row schemas.Columns) (Reason, string) {
	status, found := row["status"].(string)
	if bytes.Contains(cur.metaBytes, []byte(`"status"`)) {
		var fields struct {
			Status *string `json:"status"`
		}
		if json.Unmarshal(cur.metaBytes, &fields) == nil && fields.Status != nil {
			status, found = *fields.Status, true
		}
	}
	if !found || status == success {
		return "", ""
	}
	return ReasonStatus, fmt.Sprintf("the crawl says %q of the image", cut(status, maxEntryBytes))
}

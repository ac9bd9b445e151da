package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// Limits on a table beside a tar. img2dataset writes 10,000 rows. A few bytes of Parquet may stand for many values, so
// values are limited too.
const (
	maxSidecarBytes  = 1 << 30
	maxSidecarRows   = 1 << 18
	maxSidecarMemory = 1 << 28 // of the values that are kept: valueBytes for each, and the bytes of a text

	valueBytes = 16
)

// success is the status of a row whose image img2dataset has written.
const success = "success"

// stem returns the name of a tar or of the table beside it, without its extension.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// isSidecar reports whether a file may be the table beside a tar.
func isSidecar(name string) bool { return strings.EqualFold(path.Ext(name), ".parquet") }

// The texts of these refusals suit every Parquet library, because Go and Python must write the same record.
var (
	errNoKeys    = errors.New(`the table has no column "key", as img2dataset writes it`)
	errRows      = fmt.Errorf("it has more than %d rows", maxSidecarRows)
	errMemory    = fmt.Errorf("its values take more than %d bytes", maxSidecarMemory)
	errNoParquet = errors.New("it cannot be read as Parquet")
)

// readSidecar reads the table beside the tar, by the key of the rows. It returns a problem for a broken table.
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
	read, memory := 0, 0
	err = table.Parquet(ctx, src, size, func(r table.Row) error {
		key := r.Text("key")
		if key == "" {
			return errNoKeys
		}
		if read++; read > maxSidecarRows {
			return errRows
		}
		delete(r, "key")
		if memory += trim(r); memory > maxSidecarMemory {
			return errMemory
		}
		rows[path.Base(key)] = r
		return nil
	})
	switch {
	case err == nil:
		return rows, nil
	case ctx.Err() != nil || errors.As(err, new(*passingError)) || isAny(err, errNoKeys, errRows, errMemory):
		return nil, err
	}
	return nil, errNoParquet
}

// trim removes texts that no pair may carry from a row, and returns the size that the other values count for.
func trim(r table.Row) int {
	memory := 0
	for name, value := range r {
		text, _ := value.(string)
		if len(text) > schemas.MaxColumnText && name != "caption" && name != "url" && name != "status" {
			delete(r, name)
			continue
		}
		memory += valueBytes + len(text)
	}
	return memory
}

// rowOf returns the row of a key.
func (s *scanner) rowOf(key string) schemas.Columns { return schemas.Columns(s.rows[path.Base(key)]) }

// rowCaption returns the caption of a row, for a key without captions in the tar.
func rowCaption(row schemas.Columns) []caption {
	if text, ok := row["caption"].(string); ok {
		return []caption{checkCaption([]byte(text))}
	}
	return nil
}

// statusIn returns the status in key.json. The last of several equal names counts; names that differ in case must all
// be texts or null.
func statusIn(meta *described) (status string, found bool) {
	if meta == nil || meta.status == nil || !bytes.Contains(meta.raw, []byte(`"status"`)) {
		return "", false
	}
	var fields struct {
		Status *string `json:"status"`
	}
	var err error
	switch {
	case meta.twice:
		err = json.Unmarshal(meta.raw, &fields)
	case isPlainText(string(meta.status)):
		return string(meta.status[1 : len(meta.status)-1]), true
	default:
		err = json.Unmarshal(meta.status, &fields.Status)
	}
	if err != nil || fields.Status == nil {
		return "", false
	}
	return *fields.Status, true
}

// statusFault returns the crawl's own reason why an image is none.
func statusFault(cur sample, row schemas.Columns) (Reason, string) {
	status, found := row["status"].(string)
	if own, ok := statusIn(cur.described); ok {
		status, found = own, true
	}
	if !found || status == success {
		return "", ""
	}
	return ReasonStatus, fmt.Sprintf("the crawl says %+q of the image", cut(status, maxEntryBytes))
}

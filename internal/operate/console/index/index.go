// Package index answers the console's queries: pairs by id, members of groups, mini-batches of a pair, connections, dead
// letters and reports of training. It reads the log into one SQLite file.
//
// Nothing depends on the file. It may be deleted at any time, and [Open] makes it anew when another version wrote it.
// Every transaction also writes how far the log was read, so a kill loses nothing and repeats nothing. The number of
// pairs is bounded: the oldest go first, and a group goes with its last pair.
package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/log/stream"
)

// version is the version of the tables below. A file of another version is made anew.
const version = 3

const tables = `
CREATE TABLE cursor (topic TEXT, lane INTEGER, at INTEGER, seq INTEGER, PRIMARY KEY (topic, lane)) WITHOUT ROWID;
CREATE TABLE uri (n INTEGER PRIMARY KEY, uri TEXT UNIQUE);
CREATE TABLE pair (n INTEGER PRIMARY KEY, id BLOB, image BLOB, lane INTEGER, at INTEGER, seq INTEGER, uri INTEGER,
	off INTEGER, size INTEGER, sim INTEGER, caption TEXT, cut INTEGER, grp INTEGER, pos INTEGER, cluster INTEGER);
CREATE UNIQUE INDEX pair_id ON pair (id);
CREATE INDEX pair_place ON pair (grp, pos) WHERE grp IS NOT NULL;
CREATE INDEX pair_cluster ON pair (grp, cluster, pos) WHERE grp IS NOT NULL;
CREATE VIRTUAL TABLE words USING fts5(caption, content='pair', content_rowid='n', detail='none', columnsize=0);
CREATE TABLE grp (n INTEGER PRIMARY KEY, lane INTEGER, seq INTEGER, at INTEGER, count INTEGER, stats BLOB, checked TEXT, UNIQUE (lane, seq));
CREATE TABLE chunk (grp INTEGER, start INTEGER, at INTEGER, PRIMARY KEY (grp, start)) WITHOUT ROWID;
CREATE TABLE sheet (grp INTEGER, cluster INTEGER, size INTEGER, nearest BLOB, farthest BLOB, PRIMARY KEY (grp, cluster)) WITHOUT ROWID;
CREATE TABLE batch (grp INTEGER, epoch INTEGER, seq INTEGER, at INTEGER, features INTEGER, strategy TEXT, samples INTEGER,
	candidates INTEGER, connections INTEGER, ambiguous INTEGER, replaced INTEGER, ruled INTEGER, PRIMARY KEY (grp, epoch, seq)) WITHOUT ROWID;
CREATE TABLE place (grp INTEGER, epoch INTEGER, chunk INTEGER, batches BLOB, PRIMARY KEY (grp, epoch, chunk)) WITHOUT ROWID;
CREATE TABLE connection (grp INTEGER, kind INTEGER, image INTEGER, text INTEGER, rank INTEGER, prob REAL, epoch INTEGER, batch INTEGER, model TEXT,
	PRIMARY KEY (grp, kind, image, text)) WITHOUT ROWID;
CREATE TABLE dead (n INTEGER PRIMARY KEY, stage TEXT, class TEXT, reason TEXT, topic TEXT, lane INTEGER, at INTEGER, bytes INTEGER,
	time INTEGER, UNIQUE (topic, lane, at));
CREATE INDEX dead_class ON dead (class, n);
CREATE TABLE progress (n INTEGER PRIMARY KEY, kind TEXT, step INTEGER, time INTEGER, vals TEXT, checkpoint TEXT);
CREATE TABLE judgement (image BLOB, text BLOB, lane INTEGER, seq INTEGER, sample TEXT, match INTEGER,
	random INTEGER, prob REAL, model TEXT, PRIMARY KEY (image, text)) WITHOUT ROWID;
`

// Options choose the file and bound its content.
type Options struct {
	Dir   string // folder of the file
	Pairs int64  // most pairs that are kept
	High  float64
	Low   float64 // probabilities above High are connections, those from Low to High are passed over
}

// Index reads the log into the file and queries it. It is safe for concurrent use.
type Index struct {
	o      Options
	log    *stream.Log
	path   string
	reads  *sql.DB
	writes *sql.DB

	gone   *forget.Set          // images that no query finds
	mu     sync.Mutex           // one writer at a time
	bounds map[int64]*shortlist // of connections, by group
}

// Open opens the index in a folder. It makes a new one if there is none, or if another version wrote it.
func Open(ctx context.Context, log *stream.Log, o Options) (*Index, error) {
	folder := ownedfolder.Folder{Setting: "CONSOLE_DIR", Path: o.Dir, Kind: "pairstream console"}
	_, foreign := folder.Claim()
	if foreign != nil && !errors.Is(foreign, ownedfolder.ErrForeign) {
		return nil, foreign
	}
	name := "index.sqlite"
	if ns := log.Config().Namespace; ns != "" {
		name = ns + "." + name
	}
	gone, err := forget.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	x := &Index{o: o, log: log, gone: gone, path: filepath.Join(o.Dir, name), bounds: make(map[int64]*shortlist)}
	if foreign != nil && !x.made(ctx) {
		return nil, foreign
	}
	err = x.open(ctx)
	if err != nil { // a file that is broken, or of another version, holds nothing that the log does not
		x.Close()
		if err = x.remove(); err == nil {
			err = x.open(ctx)
		}
	}
	if err != nil {
		x.Close()
		return nil, fmt.Errorf("opening the console's index %s (CONSOLE_DIR): %w", x.path, err)
	}
	return x, nil
}

// made reports whether the file is absent or an index of any version. It changes nothing.
func (x *Index) made(ctx context.Context) bool {
	if _, err := os.Stat(x.path); errors.Is(err, os.ErrNotExist) {
		return true
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: x.path}).EscapedPath()+"?mode=ro")
	if err != nil {
		return false
	}
	defer db.Close()
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('cursor', 'uri', 'pair')").Scan(&tables)
	return err == nil && tables == 3
}

func (x *Index) remove() error {
	var problems []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(x.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

var errVersion = errors.New("the index is of another version")

func (x *Index) open(ctx context.Context) (err error) {
	at := "file:" + (&url.URL{Path: x.path}).EscapedPath() + "?_pragma=busy_timeout(10000)"
	if x.writes, err = sql.Open("sqlite", at+"&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-32000)&_txlock=immediate"); err != nil {
		return err
	}
	x.writes.SetMaxOpenConns(1)
	var found, made int
	err = x.writes.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version").Scan(&found, &made)
	if err != nil {
		return err
	}
	switch {
	case made == 0:
		if _, err = x.writes.ExecContext(ctx, tables+fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			return err
		}
	case found != version:
		return errVersion
	}
	if x.reads, err = sql.Open("sqlite", at+"&_pragma=query_only(1)&_pragma=cache_size(-16000)"); err != nil {
		return err
	}
	x.reads.SetMaxOpenConns(4)
	return x.reads.PingContext(ctx)
}

// Close closes the file.
func (x *Index) Close() {
	for _, db := range []*sql.DB{x.reads, x.writes} {
		if db != nil {
			_ = db.Close() // every transaction has ended, and nothing depends on the file
		}
	}
	x.reads, x.writes = nil, nil
}

// update runs one transaction.
func (x *Index) update(ctx context.Context, do func(*writer)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	tx, err := x.writes.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("writing the console's index: %w", err)
	}
	w := &writer{ctx: ctx, x: x, tx: tx, statements: make(map[string]*sql.Stmt), places: make(map[placeKey][]placed)}
	do(w)
	w.finish()
	if w.err == nil {
		w.err = tx.Commit()
	}
	if w.err == nil {
		return nil
	}
	clear(x.bounds) // they may hold what is rolled back
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		w.err = errors.Join(w.err, err)
	}
	return fmt.Errorf("writing the console's index: %w", w.err)
}

// writer is one transaction. Its first error stops it: later statements do nothing, and the transaction is rolled back.
type writer struct {
	ctx        context.Context //nolint:containedctx // of the transaction, which no method outlives
	x          *Index
	tx         *sql.Tx
	err        error
	statements map[string]*sql.Stmt
	places     map[placeKey][]placed
}

// run calls do with a prepared statement.
func (w *writer) run(query string, do func(*sql.Stmt) error) {
	s := w.statements[query]
	if w.err == nil && s == nil {
		s, w.err = w.tx.PrepareContext(w.ctx, query)
		w.statements[query] = s
	}
	if w.err == nil {
		w.err = do(s)
	}
}

func (w *writer) exec(query string, args ...any) {
	w.run(query, func(s *sql.Stmt) error {
		_, err := s.ExecContext(w.ctx, args...)
		return err
	})
}

// one scans the first row of a query. It returns false when there is none, or after an error.
func (w *writer) one(into []any, query string, args ...any) (found bool) {
	w.run(query, func(s *sql.Stmt) (err error) {
		found, err = scanned(s.QueryRowContext(w.ctx, args...), into)
		return err
	})
	return found
}

func (w *writer) json(v any) (raw []byte) {
	if w.err == nil {
		raw, w.err = json.Marshal(v)
	}
	return raw
}

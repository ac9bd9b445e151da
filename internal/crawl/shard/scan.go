package shard

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// maxMetaBytes bounds key.json.
const maxMetaBytes = 1 << 20

// Example is one image with its captions. Its bytes are valid only until the callback returns: the next image
// overwrites them.
type Example struct {
	Key      string
	Image    schemas.ImageRef
	ImageID  schemas.ImageID
	Encoded  []byte          // the image file
	Captions []string        // distinct and valid, at least one: key.txt's first, then those of key.json
	Meta     json.RawMessage // key.json, with null for numbers that JSON does not have, or nil
	Row      schemas.Columns // of the key in the .parquet beside the tar, or nil

	described *described // Meta, parsed; nil: not yet
}

// Visitor receives the findings of a scan, in the order of the tars. An error that it returns stops the scan.
type Visitor struct {
	Example func(Example) error
	Problem func(Problem) error
	// Picture, if set, replaces Example: the scan yields every sound image, whatever its captions.
	Picture func(Picture) error
	// Classed, if set, replaces Example: the scan yields every sound image with its class, whatever its captions.
	Classed func(Classed) error
	// Remote opens the stores that paths may name; nil: [OpenStore] does.
	Remote OpenRemote
}

// Picture is an image file in a tar. Its bytes are valid only until the callback returns.
type Picture struct {
	Entry   string // its name in the tar
	Image   schemas.ImageRef
	ImageID schemas.ImageID
	Encoded []byte
}

// Totals counts the results of a scan.
type Totals struct {
	Tars     int
	Entries  int // members of the tars with a sound header
	Ignored  int // of these: folders, and files that are neither image nor caption
	Unread   map[Unread]Unreads
	Examples int
	Pairs    int // captions of examples
	Problems map[Reason]int
}

// Scan visits the examples and problems of tars, given by path, by folder or by URL (see [Find]), in order. Problems,
// such as an unreadable tar, do not stop it. It returns an error when the visitor does, when ctx ends, when a store
// does not answer, or when no tar at all can be read.
func Scan(ctx context.Context, paths []string, v Visitor) (totals Totals, err error) {
	totals = Totals{Problems: map[Reason]int{}}
	found, err := Find(ctx, paths, v.Remote)
	if err != nil {
		return totals, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	lost := found.Lost
	var image []byte // shared by all tars: its capacity grows to the largest image
	for _, tar := range found.Tars {
		s := &scanner{v: v, totals: &totals, uri: tar.reference(), share: tar.sample, image: image}
		fault, err := s.scan(ctx, tar)
		if err != nil {
			return totals, err
		}
		if fault != nil {
			lost = append(lost, lostAt(tar.URI, fault))
		}
		image = s.image
	}
	for _, p := range lost {
		totals.Problems[p.Reason]++
		if err := v.Problem(p); err != nil {
			return totals, err
		}
	}
	if totals.Tars == 0 {
		return totals, fmt.Errorf("none of %d tars can be read: %s", len(lost), lost[0].Detail)
	}
	return totals, nil
}

// ScanTar visits the examples and problems of one tar, and adds its counts to totals. When the tar cannot be read to
// its end, the last problem reports this.
func ScanTar(ctx context.Context, tar Tar, v Visitor, totals *Totals) error {
	s := &scanner{v: v, totals: totals, uri: tar.reference(), share: tar.sample}
	fault, err := s.scan(ctx, tar)
	if fault == nil {
		return err
	}
	totals.Problems[ReasonFile]++
	return v.Problem(lostAt(tar.URI, fault))
}

// Clone returns a deep copy.
func (t Totals) Clone() Totals {
	t.Problems, t.Unread = maps.Clone(t.Problems), maps.Clone(t.Unread)
	return t
}

// Add adds the counts of another scan.
func (t *Totals) Add(o Totals) {
	t.Tars += o.Tars
	t.Entries += o.Entries
	t.Ignored += o.Ignored
	t.Examples += o.Examples
	t.Pairs += o.Pairs
	for reason, n := range o.Problems {
		t.Problems[reason] += n
	}
	for why, more := range o.Unread {
		t.unread(why, more)
	}
}

// lostAt returns the problem of a tar or folder that cannot be read.
func lostAt(uri string, why error) Problem {
	return Problem{URI: uri, Reason: ReasonFile, Detail: why.Error()}
}

// unreadableError is a fault of a tar's file, not of a visitor.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// faultOf marks an error of reading a tar as the tar's, unless it is a fault of the store that may pass.
func faultOf(err error) error {
	if _, passing := errors.AsType[*passingError](err); passing {
		return err
	}
	return &unreadableError{err}
}

// scanner walks one tar and puts the entries of a key together.
type scanner struct {
	v       Visitor
	totals  *Totals
	uri     string
	share   portion.Share
	undrawn int // examples outside of the share
	tar     *tarReader
	rows    map[string]table.Row // of the table beside the tar

	image    []byte // contents of the current key's image
	imageURI string // of the current image, if it is a separate file
	end      int64  // of the scanned bytes
	cur      sample

	reported int // problems of this tar
}

// sample collects the entries of one key.
type sample struct {
	key         string
	first       entry // the first of its entries
	image       *entry
	text, meta  *entry
	class       *entry // key.cls, for Visitor.Classed
	className   string
	textCaption []caption
	metaCaption []caption
	described   *described // the json
	found       int        // captions in the json, before any were left out

	lostCaptions bool // a text or json was reported and left out
}

// scan visits one tar. It returns why the tar cannot be read to its end, and separately any error that ends the scan.
func (s *scanner) scan(ctx context.Context, tar Tar) (fault *unreadableError, err error) {
	err = s.file(ctx, tar)
	if fault, unreadable := errors.AsType[*unreadableError](err); unreadable {
		return fault, nil
	}
	if err != nil {
		return nil, fmt.Errorf("scanning %s: %w", tar.name(), err)
	}
	s.totals.Tars++
	return nil, nil
}

func (s *scanner) file(ctx context.Context, tar Tar) error {
	if tar.list != nil {
		return s.list(ctx, tar.list)
	}
	src, err := tar.open(ctx)
	if err != nil {
		return &unreadableError{err}
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return &unreadableError{err}
	}
	if err := s.readSidecar(ctx, tar); err != nil {
		return err
	}
	before := s.totals.Examples
	if err := s.walk(ctx, src, size); err != nil {
		return err
	}
	if s.totals.Examples == before && s.undrawn == 0 && s.v.Picture == nil && s.v.Classed == nil {
		s.totals.unread(whyEmpty(src), Unreads{1, s.uri})
	}
	return s.more()
}

func (s *scanner) walk(ctx context.Context, src io.ReaderAt, size int64) error {
	s.tar = newTarReader(src, size)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := s.tar.next()
		damage, damaged := errors.AsType[*headerFault](err)
		switch {
		case errors.Is(err, io.EOF):
			s.end = s.tar.end
			return s.flush()
		case errors.Is(err, errMarker): // the next tar may repeat the name of a key, but means another one
			err = s.flush()
		case damaged:
			if err = s.flush(); err == nil { // the key before the damage gets no more entries
				err = s.report(Problem{Offset: damage.offset, Reason: damage.reason, Detail: damage.detail})
			}
		case err == nil:
			s.totals.Entries++
			err = s.entry(e)
		default:
			err = faultOf(err)
			if _, unreadable := errors.AsType[*unreadableError](err); unreadable {
				err = errors.Join(s.flush(), err)
			}
		}
		if err != nil {
			return err
		}
	}
}

// entry adds one member of the tar to the example of its key.
func (s *scanner) entry(e entry) error {
	switch e.typeflag {
	case tar.TypeDir, tar.TypeXGlobalHeader:
		s.totals.Ignored++
		return nil
	}
	if reason, detail := refuse(e); reason != "" {
		return s.report(Problem{Offset: e.header, Entry: e.name, Reason: reason, Detail: detail})
	}
	key, ext := splitName(e.name)
	kind := kindOf(ext)
	if s.v.Classed != nil && ext == "cls" {
		kind = class
	}
	if s.v.Picture != nil {
		key = e.name // two images may differ in their extension alone
	}
	if kind == other || s.v.Picture != nil && kind != picture {
		s.totals.Ignored++
		if kind == other {
			s.totals.unread(whyUnread(key, ext), Unreads{1, e.name + " of " + s.uri})
		}
		if e.present == e.size {
			return nil
		}
		return s.report(Problem{Offset: e.header, Entry: e.name, Reason: ReasonCut, Detail: cutDetail(e)})
	}
	if key != s.cur.key {
		if err := s.flush(); err != nil {
			return err
		}
		s.cur = sample{key: key, first: e}
	}
	switch kind {
	case picture:
		return s.takeImage(e)
	case text:
		return s.takeCaptions(e, &s.cur.text, "text", func(raw []byte) {
			s.cur.textCaption = []caption{checkCaption(table.PlainText(raw))}
		})
	case class:
		return s.takeCaptions(e, &s.cur.class, "cls", func(raw []byte) { s.cur.className = string(bytes.TrimSpace(raw)) })
	default:
		return s.takeCaptions(e, &s.cur.meta, "json", func(raw []byte) {
			s.cur.described = describe(table.PlainJSON(raw))
			s.cur.metaCaption, s.cur.found = jsonCaptions(s.cur.described)
		})
	}
}

func cutDetail(e entry) string {
	return fmt.Sprintf("the tar ends after %d of the entry's %d bytes", e.present, e.size)
}

func (s *scanner) takeImage(e entry) error {
	if s.cur.image != nil {
		return s.complain(e, ReasonDuplicate, "a second image under the same key")
	}
	s.cur.image = &e
	s.image = s.image[:0]
	if e.size > schemas.MaxImageBytes {
		return nil
	}
	var err error
	s.image, err = s.contents(e, s.image)
	return err
}

// takeCaptions passes the text or the json of the current key to read. kept is the key's earlier entry of that kind.
func (s *scanner) takeCaptions(e entry, kept **entry, what string, read func([]byte)) error {
	reason, detail := Reason(""), ""
	switch {
	case *kept != nil:
		reason, detail = ReasonDuplicate, "a second "+what+" under the same key"
	case e.present < e.size:
		reason, detail = ReasonCut, cutDetail(e)
	case e.size > maxMetaBytes:
		reason, detail = ReasonOversize, fmt.Sprintf("a %s of %d bytes, at most %d are allowed", what, e.size, maxMetaBytes)
	}
	if reason != "" {
		s.cur.lostCaptions = true
		return s.complain(e, reason, detail)
	}
	*kept = &e
	raw, err := s.contents(e, nil)
	if err == nil {
		read(raw)
	}
	return err
}

// complain reports an entry of the current key.
func (s *scanner) complain(e entry, reason Reason, detail string) error {
	p := Problem{Offset: e.header, Entry: e.name, Reason: reason, Detail: detail}
	if s.cur.image != nil {
		p.Image, p.ImageID = s.imageRef(s.cur.image)
	}
	return s.report(p)
}

// contents reads an entry, as far as the tar holds it, into buf's memory.
func (s *scanner) contents(e entry, buf []byte) ([]byte, error) {
	buf = slices.Grow(buf[:0], int(e.present))[:e.present]
	if err := s.tar.read(buf); err != nil {
		return buf[:0], faultOf(fmt.Errorf("reading %q at offset %d: %w", cut(e.name, maxEntryBytes), e.data, err))
	}
	return buf, nil
}

// report hands out a problem, unless the tar has had MaxProblems already.
func (s *scanner) report(p Problem) error {
	if s.reported++; s.reported > MaxProblems {
		return nil
	}
	p.URI = s.uri
	s.totals.Problems[p.Reason]++
	return s.v.Problem(p)
}

// more reports the number of problems of the tar beyond MaxProblems.
func (s *scanner) more() error {
	surplus := s.reported - MaxProblems
	if surplus <= 0 {
		return nil
	}
	s.totals.Problems[ReasonMore]++
	return s.v.Problem(Problem{
		URI: s.uri, Offset: s.end, Reason: ReasonMore, Detail: fmt.Sprintf("%d more problems in this tar, after the first %d", surplus, MaxProblems),
	})
}

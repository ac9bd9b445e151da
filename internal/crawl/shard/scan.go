package shard

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

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

// Visitor receives what a scan finds, in the order of the tars. An error that it returns stops the scan.
type Visitor struct {
	Example func(Example) error
	Problem func(Problem) error
	// Picture, where set, takes the place of Example: the scan hands out every sound image, and its captions do not
	// matter.
	Picture func(Picture) error
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

// Totals counts what a scan went through.
type Totals struct {
	Tars     int
	Entries  int // members of the tars with a sound header
	Ignored  int // of these: folders, and files that are neither image nor caption
	Unread   map[Unread]Unreads
	Examples int
	Pairs    int // captions of examples
	Problems map[Reason]int
}

// Scan visits the examples and problems of tars, given by path, by folder or by URL (see [Find]), in order. Problems do
// not stop it, a tar that cannot be read is one. It returns an error when the visitor does, when ctx ends, when a store
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
		s := &scanner{v: v, totals: &totals, uri: tar.URI, image: image}
		switch err := s.file(ctx, tar); {
		case errors.As(err, new(*unreadableError)):
			lost = append(lost, lostTar(tar, err))
		case err != nil:
			return totals, fmt.Errorf("scanning %s: %w", tar.name(), err)
		default:
			totals.Tars++
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

// ScanTar visits the examples and problems of one tar. When it cannot be read to its end, the last problem says so.
// ScanTar adds to totals what it went through.
func ScanTar(ctx context.Context, tar Tar, v Visitor, totals *Totals) error {
	s := &scanner{v: v, totals: totals, uri: tar.URI}
	switch err := s.file(ctx, tar); {
	case errors.As(err, new(*unreadableError)):
		totals.Problems[ReasonFile]++
		return v.Problem(lostTar(tar, err))
	case err != nil:
		return fmt.Errorf("scanning %s: %w", tar.name(), err)
	}
	totals.Tars++
	return nil
}

// Clone returns a copy.
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

// lostTar returns the problem of a tar that cannot be read.
func lostTar(t Tar, why error) Problem {
	return Problem{URI: t.URI, Reason: ReasonFile, Detail: why.Error()}
}

// lostFile returns the problem of a tar or folder that cannot be read.
func lostFile(path string, why error) Problem {
	return Problem{URI: FileURI(path), Reason: ReasonFile, Detail: why.Error()}
}

// unreadableError is a fault of a tar's file, not of a visitor.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// faultOf returns the fault of reading a tar. That of a store which may pass says nothing about the tar.
func faultOf(err error) error {
	if passing := new(passingError); errors.As(err, &passing) {
		return err
	}
	return &unreadableError{err}
}

// scanner walks one tar and puts the entries of a key together.
type scanner struct {
	v      Visitor
	totals *Totals
	uri    string
	tar    *tarReader
	rows   map[string]table.Row // of the table beside the tar

	image    []byte // contents of the current key's image
	imageURI string // of the current image, where that is a file by itself
	end      int64  // of what was scanned
	cur      sample

	reported int // problems of this tar
}

// sample is what was seen so far of one key.
type sample struct {
	key         string
	first       entry // the first of its entries
	image       *entry
	text, meta  *entry
	textCaption []caption
	metaCaption []caption
	described   *described // the json
	found       int        // captions in the json, before any were left out

	lostCaptions bool // a text or json was reported and left out
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
	if s.totals.Examples == before && s.v.Picture == nil {
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
		var fault *headerFault
		switch {
		case errors.Is(err, io.EOF):
			s.end = s.tar.end
			return s.flush()
		case errors.Is(err, errMarker): // a key of the next tar is another one, although it may have the same name
			err = s.flush()
		case errors.As(err, &fault):
			err = s.damaged(fault)
		case err == nil:
			s.totals.Entries++
			err = s.entry(e)
		default:
			if err = faultOf(err); errors.As(err, new(*unreadableError)) {
				err = errors.Join(s.flush(), err)
			}
		}
		if err != nil {
			return err
		}
	}
}

// damaged reports a fault between entries. The key before it is complete as far as it will ever be.
func (s *scanner) damaged(fault *headerFault) error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.report(Problem{Offset: fault.offset, Reason: fault.reason, Detail: fault.detail})
}

// entry takes one member of the tar in.
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
	if s.v.Picture != nil {
		key = e.name // two images may differ in their extension alone
	}
	if kind == other || s.v.Picture != nil && kind != picture {
		s.totals.Ignored++
		if kind == other {
			s.totals.unread(whyUnread(key, ext), Unreads{1, e.name + " of " + s.uri})
		}
		return s.cutShort(e)
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
		return s.takeText(e)
	default:
		return s.takeMeta(e)
	}
}

// cutShort reports that the tar ends inside an entry whose contents are of no interest.
func (s *scanner) cutShort(e entry) error {
	if e.present == e.size {
		return nil
	}
	return s.report(Problem{Offset: e.header, Entry: e.name, Reason: ReasonCut, Detail: cutDetail(e)})
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

func (s *scanner) takeText(e entry) error {
	if reason, detail := readable(e, s.cur.text, "text"); reason != "" {
		s.cur.lostCaptions = true
		return s.complain(e, reason, detail)
	}
	s.cur.text = &e
	raw, err := s.contents(e, nil)
	if err == nil {
		s.cur.textCaption = []caption{checkCaption(table.PlainText(raw))}
	}
	return err
}

func (s *scanner) takeMeta(e entry) error {
	if reason, detail := readable(e, s.cur.meta, "json"); reason != "" {
		s.cur.lostCaptions = true
		return s.complain(e, reason, detail)
	}
	s.cur.meta = &e
	raw, err := s.contents(e, nil)
	if err == nil {
		s.cur.described = describe(table.PlainJSON(raw))
		s.cur.metaCaption, s.cur.found = jsonCaptions(s.cur.described)
	}
	return err
}

// readable returns why the text or json of a key is not read; earlier is the one already seen.
func readable(e entry, earlier *entry, what string) (Reason, string) {
	switch {
	case earlier != nil:
		return ReasonDuplicate, "a second " + what + " under the same key"
	case e.present < e.size:
		return ReasonCut, cutDetail(e)
	case e.size > maxMetaBytes:
		return ReasonOversize, fmt.Sprintf("a %s of %d bytes, at most %d are allowed", what, e.size, maxMetaBytes)
	}
	return "", ""
}

// complain reports an entry of the current key.
func (s *scanner) complain(e entry, reason Reason, detail string) error {
	p := Problem{Offset: e.header, Entry: e.name, Reason: reason, Detail: detail}
	if s.cur.image != nil {
		p.Image, p.ImageID = s.imageRef(s.cur.image)
	}
	return s.report(p)
}

// contents reads what the tar holds of an entry into buf's memory.
func (s *scanner) contents(e entry, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < e.present {
		buf = make([]byte, e.present)
	}
	buf = buf[:e.present]
	if err := s.tar.read(buf); err != nil {
		return buf[:0], faultOf(fmt.Errorf("reading %q at offset %d: %w", cut(e.name, maxEntryBytes), e.data, err))
	}
	return buf, nil
}

// report hands a problem out, as long as the tar has not had too many.
func (s *scanner) report(p Problem) error {
	if s.reported++; s.reported > MaxProblems {
		return nil
	}
	p.URI = s.uri
	s.totals.Problems[p.Reason]++
	return s.v.Problem(p)
}

// more returns how many problems of the tar were not handed out.
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

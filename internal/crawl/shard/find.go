package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNoTars means that a folder, or a prefix of a store, holds no tar.
var ErrNoTars = errors.New("there is no *.tar")

// Tar is a tar that [Find] found, in the state of that moment.
type Tar struct {
	URI     string // as references name it
	Size    int64
	Version string // changes whenever the tar does; empty: not known
	Place   int    // index of the first path that named it

	whole   string        // the URI without the options of a sample; empty: the same
	sample  portion.Share // of the tar's examples
	path    string        // on the file system
	list    *list         // a JSON list instead of a tar
	catalog Catalog
	object  Object
	beside  *Tar // the table of the same name, which is no tar
}

// Beside returns the URI and the state of the table that lies beside the tar, if there is one.
func (t Tar) Beside() (uri string, size int64, version string, ok bool) {
	if t.beside == nil {
		return "", 0, "", false
	}
	return t.beside.URI, t.beside.Size, t.beside.Version, true
}

// reference returns the URI by which references name the tar.
func (t Tar) reference() string { return cmp.Or(t.whole, t.URI) }

// take makes the tar the source of a share of its examples. Another share is another source.
func (t *Tar) take(s portion.Share) {
	if options := s.String(); options != "" {
		t.sample, t.whole, t.URI = s, t.URI, t.URI+options
	}
}

// name returns the tar's name for messages.
func (t Tar) name() string {
	if t.catalog == nil && t.list == nil {
		return t.path
	}
	return t.URI
}

// Found holds the results of [Find]. It keeps the stores open.
type Found struct {
	Tars []Tar
	Lost []Problem // one for each file or folder that cannot be read

	stores []Catalog
	room   int // for tars and tables of a store that are remembered
}

// maxListed bounds the tars and tables of one place in a store.
const maxListed = 1 << 20

// Close closes the stores.
func (f *Found) Close() error {
	var errs []error
	for _, s := range f.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Find lists the tars that paths name, in order. A path is a tar or a folder on the file system (see [Tars]), or a URL:
// s3://bucket/prefix/a.tar is a tar, any other URL stands for the *.tar below it, in the order of their names. Options
// of the store follow a question mark; sample=0.25 among them takes that share of the examples, drawn by seed. A JSON
// list of images, file.json?images=FOLDER, is one source, like a tar. Each tar comes once.
func Find(ctx context.Context, paths []string, remote OpenRemote) (*Found, error) {
	parts := make([]Found, len(paths))
	each := make([][]Tar, len(paths))
	var finding errgroup.Group // without a context of its own: stores are opened here, and used later
	finding.SetLimit(8)
	for i, p := range paths {
		finding.Go(func() (err error) {
			parts[i].room = maxListed
			each[i], err = parts[i].find(ctx, p, remote)
			return err
		})
	}
	err := finding.Wait()
	f := new(Found)
	seen := make(map[string]bool)
	for place, tars := range each {
		f.Lost = append(f.Lost, parts[place].Lost...)
		f.stores = append(f.stores, parts[place].stores...)
		for _, t := range tars {
			if !seen[t.URI] {
				seen[t.URI], t.Place = true, place
				f.Tars = append(f.Tars, t)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Found) find(ctx context.Context, p string, remote OpenRemote) ([]Tar, error) {
	if l, err := listAt(p); l != nil || err != nil {
		if err != nil {
			return nil, fmt.Errorf("looking for images of %s: %w", p, err)
		}
		t, err := l.find()
		return []Tar{t}, err
	}
	place, share, err := portion.Cut(p)
	if err != nil {
		return nil, fmt.Errorf("looking for tars in %w", err)
	}
	tars, err := f.at(ctx, place, remote)
	for i := range tars {
		tars[i].take(share)
	}
	return tars, err
}

// at lists the tars of a path or URL.
func (f *Found) at(ctx context.Context, p string, remote OpenRemote) ([]Tar, error) {
	if IsRemote(p) {
		tars, err := f.inStore(ctx, p, remote)
		if err != nil {
			err = fmt.Errorf("looking for tars in %s: %w", p, err)
		}
		return tars, err
	}
	files, lost, err := findFiles([]string{p})
	f.Lost = append(f.Lost, lost...)
	var tars []Tar
	for _, file := range files {
		t, _ := onDisk(file) // the scan reports a file that has gone meanwhile
		if beside, regular := onDisk(stem(file) + ".parquet"); regular {
			t.beside = &beside
		}
		tars = append(tars, t)
	}
	return tars, err
}

// onDisk returns a file in its current state, and whether it is a regular one.
func onDisk(file string) (t Tar, regular bool) {
	t = Tar{URI: FileURI(file), path: file}
	info, err := os.Stat(file)
	if err != nil {
		return t, false
	}
	t.Size, t.Version = info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)
	return t, info.Mode().IsRegular()
}

// inStore lists the tars of a place in a store.
func (f *Found) inStore(ctx context.Context, p string, remote OpenRemote) ([]Tar, error) {
	root, name, err := remotePlace(p)
	if err != nil {
		return nil, err
	}
	catalog, err := openCatalog(ctx, root, remote)
	if err != nil {
		return nil, err
	}
	f.stores = append(f.stores, catalog)
	var tars []Tar
	sidecars := make(map[string]*Tar)
	add := func(o Object) {
		compressed := isCompressed(o.Name)
		if !isSidecar(o.Name) && !strings.EqualFold(path.Ext(o.Name), ".tar") && !compressed {
			return
		}
		if f.room--; f.room < 0 {
			return
		}
		t := Tar{URI: ObjectURI(root, o.Name), Size: o.Size, Version: o.Version, catalog: catalog, object: o}
		switch {
		case isSidecar(o.Name):
			sidecars[stem(o.Name)] = &t
		case compressed:
			f.Lost = append(f.Lost, lostAt(t.URI, errCompressed))
		case !plainName(o.Name):
			f.Lost = append(f.Lost, lostAt(t.URI, errors.New("its name has empty or dotted parts, and no reference can name it")))
		case len(t.URI) > schemas.MaxURIBytes:
			f.Lost = append(f.Lost, lostAt(t.URI, fmt.Errorf("its reference would have %d bytes, at most %d are allowed", len(t.URI), schemas.MaxURIBytes)))
		default:
			tars = append(tars, t)
		}
	}
	if name != "" {
		err = lookUp(ctx, catalog, name, add)
	} else {
		err = catalog.List(ctx, add)
	}
	switch {
	case err != nil:
		return nil, err
	case f.room < 0:
		return nil, fmt.Errorf("there are more than %d tars and tables: name prefixes below it, or move the published tars away", maxListed)
	case len(tars) == 0 && name == "" && len(f.Lost) > 0:
		return nil, fmt.Errorf("%w that can be read below this prefix; %s: %s", ErrNoTars, f.Lost[0].URI, f.Lost[0].Detail)
	case len(tars) == 0 && name == "":
		return nil, fmt.Errorf("%w below this prefix", ErrNoTars)
	}
	for i := range tars {
		tars[i].beside = sidecars[stem(tars[i].object.Name)]
	}
	return tars, nil
}

// lookUp calls add with a tar, and with the table beside it.
func lookUp(ctx context.Context, catalog Catalog, name string, add func(Object)) error {
	var beside Object
	var missing error
	var describing errgroup.Group
	describing.Go(func() error {
		beside, missing = catalog.Describe(ctx, stem(name)+".parquet")
		if errors.Is(missing, ErrMissing) {
			return nil
		}
		return missing
	})
	tar, err := catalog.Describe(ctx, name)
	if err := errors.Join(err, describing.Wait()); err != nil {
		return err
	}
	if add(tar); missing == nil {
		add(beside)
	}
	return nil
}

// content is an open tar.
type content interface {
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

func (t Tar) open(ctx context.Context) (content, error) {
	if t.catalog != nil {
		return newRemoteTar(ctx, t.catalog, t.object), nil
	}
	f, err := os.Open(t.path)
	return localTar{f}, err
}

type localTar struct{ *os.File }

func (f localTar) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

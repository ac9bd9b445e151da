package shard

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
)

// Store takes and holds objects below a prefix. What is written appears when it is complete.
type Store interface {
	Catalog
	// Has reports whether there is an object.
	Has(ctx context.Context, name string) (bool, error)
	// Sizes lists the objects, with their sizes in bytes.
	Sizes(ctx context.Context) (map[string]int64, error)
	// Open opens an object. An error wraps [io/fs.ErrNotExist] where there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Put writes a file as an object.
	Put(ctx context.Context, name string, from *os.File) error
	// Write makes an object of what write writes. An error wraps [io/fs.ErrExist] where there is one already.
	Write(ctx context.Context, name string, write func(io.Writer) error) error
	// Rewrite does what Write does, and replaces the object that is there.
	Rewrite(ctx context.Context, name string, write func(io.Writer) error) error
	// Delete removes an object. An error wraps [io/fs.ErrNotExist] where there is none, in stores that say so.
	Delete(ctx context.Context, name string) error
}

// openStore opens stores; see [UseStores].
var openStore func(ctx context.Context, root *url.URL) (Store, error)

// UseStores gives the program its clients of object stores; see package cloud. A program calls it before it opens a store.
func UseStores(open func(ctx context.Context, root *url.URL) (Store, error)) { openStore = open }

// OpenStore opens the store of a root whose scheme is not file.
func OpenStore(ctx context.Context, root *url.URL) (Store, error) {
	if openStore == nil {
		return nil, fmt.Errorf("no objects of scheme %q can be read here", root.Scheme)
	}
	return openStore(ctx, root)
}

func (o OpenRemote) open(ctx context.Context, root *url.URL) (Objects, error) {
	if o == nil {
		return OpenStore(ctx, root)
	}
	return o(ctx, root)
}

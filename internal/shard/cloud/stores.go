package cloud

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"

	"gocloud.dev/blob"

	"github.com/pairstream/pairstream/internal/shard"
)

var _ shard.OpenRemote = new(Stores).Open

// Stores opens buckets and keeps them open, for callers that come back often. The zero value has none open.
type Stores struct {
	mu   sync.Mutex
	kept map[string]*blob.Bucket
}

// Open does what [Open] does. The bucket stays open until [Stores.Close], and it is asked once whether it exists.
func (s *Stores) Open(ctx context.Context, root *url.URL) (shard.Objects, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := root.Scheme + "://" + root.Host + "?" + root.RawQuery
	if b, found := s.kept[key]; found {
		return shared{&objects{bucket: b, prefix: strings.Trim(root.Path, "/")}}, nil
	}
	opened, err := Open(ctx, root)
	if err != nil {
		return nil, err
	}
	if s.kept == nil {
		s.kept = make(map[string]*blob.Bucket)
	}
	o := opened.(*objects)
	s.kept[key] = o.bucket
	return shared{o}, nil
}

// Close closes the buckets. They are opened anew when they are asked for, with the credentials of that moment.
func (s *Stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.kept {
		errs = append(errs, b.Close())
	}
	s.kept = nil
	return errors.Join(errs...)
}

// shared are objects of a bucket that stays open.
type shared struct{ *objects }

// Close implements [shard.Objects].
func (shared) Close() error { return nil }

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Segments says where closed groups lie, for later ones.
type Segments struct {
	Root string `env:"SEGMENTS_ROOT" desc:"place that gets every closed group as a segment of 8-bit codes, for NEIGHBORS_SCOPE and pairstream search: s3://bucket/prefix, gs://bucket/prefix or a folder; a folder that all indexers share is file:///folder; empty: none"`
}

// validateScope refuses a scope whose groups cannot be asked.
func (s Settings) validateScope() error {
	scope := s.Core.Normal().Scope
	place, err := url.Parse(s.Segments.Root)
	switch {
	case s.Segments.Root == "" && scope != "":
		return fmt.Errorf("NEIGHBORS_SCOPE is %s, which asks segments of closed groups: set SEGMENTS_ROOT to the place that gets them", scope)
	case s.Segments.Root != "" && err != nil:
		return fmt.Errorf("SEGMENTS_ROOT is %q: %w", s.Segments.Root, err)
	case scope == schemas.ScopeCrawl && place.Scheme == "":
		return fmt.Errorf("NEIGHBORS_SCOPE is crawl and SEGMENTS_ROOT is %q, a folder that indexers of other lanes may not see: want s3://bucket/prefix, gs://bucket/prefix, or file:///folder for a folder that all of them share", s.Segments.Root)
	}
	return nil
}

// openStore opens SEGMENTS_ROOT, whose options may stand in BUCKET_ROOTS alone.
func (s Settings) openStore(ctx context.Context, log *stream.Log) (*store.Store, error) {
	if s.Segments.Root == "" {
		return nil, errors.New("SEGMENTS_ROOT is empty: set it to the place that gets the indexers' segments")
	}
	place, err := store.Open(ctx, shard.WithOptions([]string{s.Segments.Root}, s.Repack.Roots)[0], log.Config().Namespace)
	if err != nil {
		return nil, fmt.Errorf("SEGMENTS_ROOT is %q: %w", s.Segments.Root, err)
	}
	return place, nil
}

// segments brings groups the closed ones that they ask. Without one (nil) there are none.
type segments struct {
	store       *store.Store
	log         *stream.Log
	instruments *service.Instruments
}

// openSegments opens SEGMENTS_ROOT, if it is set.
func openSegments(ctx context.Context, s Settings, log *stream.Log, instruments *service.Instruments) (*segments, error) {
	if s.Segments.Root == "" {
		return nil, nil
	}
	place, err := s.openStore(ctx, log)
	if err != nil {
		return nil, err
	}
	return &segments{store: place, log: log, instruments: instruments}, nil
}

func (s *segments) Close() error {
	if s == nil {
		return nil
	}
	return s.store.Close()
}

// closed are the latest closed groups of a lane that have segments, as a mark keeps them. Only those of one model can
// be asked.
type closed struct {
	Model  string       `json:"model"`
	Groups []store.Name `json:"groups"`
}

// keepClosed is the least number of groups that a mark keeps.
const keepClosed = 8

// with returns the groups of a lane after one more was closed.
func (c *closed) with(name store.Name, model string, o indexer.Options) *closed {
	var groups []store.Name
	if c != nil && c.Model == model {
		groups = slices.Clone(c.Groups[max(0, len(c.Groups)+1-max(keepClosed, o.Asked)):])
	}
	return &closed{Model: model, Groups: append(groups, name)}
}

// of returns the groups of a model.
func (c *closed) of(model string) []store.Name {
	if c == nil || c.Model != model {
		return nil
	}
	return c.Groups
}

// latest returns the last of names, at most n.
func latest(names []store.Name, n int) []store.Name { return names[max(0, len(names)-n):] }

// ask maps the segments that a group asks. Own are those of its lane.
func (s *segments) ask(ctx context.Context, id schemas.GroupID, model string, o indexer.Options, own *closed) (found []*segment.Segment, err error) {
	if o.Scope == "" {
		return nil, nil
	}
	if s == nil {
		return nil, fmt.Errorf("group %s was begun with NEIGHBORS_SCOPE=%s: it needs SEGMENTS_ROOT until it is closed", id, o.Scope)
	}
	names := latest(own.of(model), o.Asked)
	opened := make(map[store.Name]*segment.Segment)
	if o.Scope == schemas.ScopeCrawl {
		place := scope.Place{Lane: int(id.Lane), Group: id.Seq, Most: o.Asked}
		choice, err := scope.Notes.Take(ctx, s.log, place, func(ctx context.Context) (scope.Choice, error) {
			names, err := s.choose(ctx, int(id.Lane), model, o.Asked, own, opened)
			return scope.Choice{Place: place, Segments: names}, err
		})
		if err != nil {
			return nil, errors.Join(stream.Transient(err), closeAll(slices.Collect(maps.Values(opened))))
		}
		names = choice.Segments
	}
	defer func() {
		err = errors.Join(err, closeAll(slices.Collect(maps.Values(opened)))) // another owner has chosen first
		if err != nil {
			err = errors.Join(err, closeAll(found))
			found = nil
		}
	}()
	for _, name := range names {
		if one := opened[name]; one != nil {
			found = append(found, one)
			delete(opened, name)
			continue
		}
		one, err := s.get(ctx, id, model, name, own)
		if err != nil {
			return found, err
		}
		if one != nil {
			found = append(found, one)
		}
	}
	return found, nil
}

// choose returns the latest segments of all lanes. Of its own lane it takes only segments that the lane knows to be its
// own. It opens those of other lanes, and leaves them in opened: a choice is final, and a lane that chose an invalid
// segment would wait forever.
func (s *segments) choose(ctx context.Context, lane int, model string, most int, own *closed, opened map[store.Name]*segment.Segment) ([]store.Name, error) {
	all, err := s.store.List(ctx, model)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n store.Name) bool { return n.Lane == lane })
	all = append(all, own.of(model)...)
	slices.SortFunc(all, store.Compare)
	var chosen []store.Name
	for _, name := range slices.Backward(all) {
		if len(chosen) == most {
			break
		}
		if name.Lane != lane {
			one, err := s.store.Get(ctx, model, name)
			if errors.Is(err, segment.ErrInvalid) || errors.Is(err, fs.ErrNotExist) {
				s.instruments.Log.Warn("passing over a segment of another lane", keyGroup, name.ID().String(), keyErr, err)
				continue
			}
			if err != nil {
				return nil, err
			}
			opened[name] = one
		}
		chosen = append(chosen, name)
	}
	slices.Reverse(chosen)
	return chosen, nil
}

// The pauses of an indexer that waits for a segment of another lane, and between two lines about it.
const (
	waitPause = time.Second
	waitSay   = 30 * time.Second
)

// get maps a segment that a choice names. A replay with other settings makes other segments: it gets that of the same
// group, and none where its lane has none.
func (s *segments) get(ctx context.Context, id schemas.GroupID, model string, name store.Name, own *closed) (*segment.Segment, error) {
	if name.Lane != int(id.Lane) {
		return s.await(ctx, id, model, name)
	}
	groups := own.of(model)
	at := slices.IndexFunc(groups, func(n store.Name) bool { return n.Seq == name.Seq })
	if at < 0 {
		return nil, nil
	}
	one, err := s.store.Get(ctx, model, groups[at])
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("its segment is not in SEGMENTS_ROOT any more (bring it back): %w", err)
	}
	if err != nil {
		return nil, stream.Transient(fmt.Errorf("group %s asks group %s: %w", id, name.ID(), err))
	}
	return one, nil
}

// await maps a segment of another lane. It may not be there yet in a replay, whose lanes go on at their own pace.
func (s *segments) await(ctx context.Context, id schemas.GroupID, model string, name store.Name) (*segment.Segment, error) {
	for waited := time.Duration(0); ; waited += waitPause {
		one, err := s.store.Get(ctx, model, name)
		if errors.Is(err, fs.ErrNotExist) {
			one, err = s.another(ctx, model, name, err)
		}
		if err == nil {
			return one, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, stream.Transient(fmt.Errorf("group %s asks group %s: %w", id, name.ID(), err))
		}
		if never, problem := s.never(ctx, name.ID(), model); problem != nil || never {
			return nil, problem
		}
		if waited%waitSay == 0 {
			s.instruments.Log.Info("a group waits for the segment of another lane", keyGroup, id.String(), keyErr, err)
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// another maps a segment of the same group with another digest. A replay makes such ones where its vectors are not
// those of the original, bit by bit. Its records then differ, and it does not wait for ever.
func (s *segments) another(ctx context.Context, model string, name store.Name, missing error) (*segment.Segment, error) {
	all, err := s.store.List(ctx, model)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.ID() != name.ID() {
			continue
		}
		if one, err := s.store.Get(ctx, model, n); !errors.Is(err, segment.ErrInvalid) {
			return one, err
		}
	}
	return nil, missing
}

// never reports whether a lane has ended without a group, or made it with another model.
func (s *segments) never(ctx context.Context, id schemas.GroupID, model string) (bool, error) {
	_, ended, err := s.log.LastWhere(ctx, schemas.Groups, int(id.Lane), recordWhere(func(r schemas.Record) bool {
		seal, ok := r.(*schemas.Seal)
		return ok && seal.Final
	}))
	if err != nil {
		return false, stream.Transient(err)
	}
	other := false
	_, made, err := s.log.LastWhere(ctx, schemas.Groups, int(id.Lane), recordWhere(func(r schemas.Record) bool {
		g, ok := r.(*schemas.Group)
		if !ok || g.Group != id {
			return false
		}
		other = g.Model != model
		return true
	}))
	if err != nil {
		return false, stream.Transient(err)
	}
	return other || ended && !made, nil
}

func recordWhere(counts func(schemas.Record) bool) func(*stream.Record) bool {
	return func(rec *stream.Record) bool {
		schema, _ := rec.Header(schemas.HeaderSchema)
		r, err := schemas.Unmarshal(string(schema), rec.Value)
		return err == nil && counts(r)
	}
}

// put writes the segment of a group, and returns the lane's closed groups with it.
func (s *segments) put(ctx context.Context, g *indexer.Group, o indexer.Options, own *closed) (*closed, error) {
	if s == nil || g.Segment == nil {
		return own, nil
	}
	name, err := s.store.Put(ctx, g.Segment)
	if err != nil {
		return own, stream.Transient(err)
	}
	return own.with(name, g.Manifest.Model, o), nil
}

func closeAll(found []*segment.Segment) error {
	var problems []error
	for _, one := range found {
		problems = append(problems, one.Close())
	}
	return errors.Join(problems...)
}

// Package interrupt tells a process that was asked to stop from one that failed while it stopped.
//
// What ends because its context ends returns [context.Canceled]. The last checkpoint that finds the disk full at the
// same moment is joined with it. Such an error matches context.Canceled, and is a failure all the same.
package interrupt

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Failure returns err without the interruptions that are joined with it. It returns nil for an error made of
// [context.Canceled] alone, however it is wrapped. An error that wraps several others is a failure if one of them is.
func Failure(err error) error {
	if err == nil {
		return nil
	}
	switch e := err.(type) { //nolint:errorlint // it goes down the tree by itself
	case interface{ Unwrap() []error }:
		return failures(err, e.Unwrap())
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			if Failure(inner) == nil {
				return nil
			}
			return err
		}
	}
	if errors.Is(err, context.Canceled) { // package net has one by another name
		return nil
	}
	return err
}

// failures returns whole if each of its parts is a failure, and those that are if its words are no more than theirs.
func failures(whole error, parts []error) error {
	var kept []error
	for _, part := range parts {
		if failed := Failure(part); failed != nil {
			kept = append(kept, failed)
		}
	}
	if joined := errors.Join(kept...); joined == nil || whole.Error() == errors.Join(parts...).Error() {
		return joined
	}
	return whole
}

// Unfinished turns an interruption into an error that says so, for a command that has not done its work. What failed
// besides counts alone.
func Unfinished(err error) error {
	if failed := Failure(err); failed != nil || err == nil {
		return failed
	}
	return errors.New("interrupted")
}

// Group is an [errgroup.Group] in which an interruption does not hide a failure that comes after it.
type Group struct {
	all    *errgroup.Group
	mu     sync.Mutex
	failed error
}

// WithContext returns a group, and a context that ends with the first error or when ctx does.
func WithContext(ctx context.Context) (*Group, context.Context) {
	all, ctx := errgroup.WithContext(ctx)
	return &Group{all: all}, ctx
}

// Go calls f in a goroutine.
func (g *Group) Go(f func() error) {
	g.all.Go(func() error {
		err := f()
		if failed := Failure(err); failed != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.failed == nil {
				g.failed = failed
			}
		}
		return err
	})
}

// Wait waits for every function. It returns the first failure, else the first interruption.
func (g *Group) Wait() error {
	err := g.all.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return g.failed
	}
	return err
}

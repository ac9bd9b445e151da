package interrupt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
)

// A dial that is called off returns an error of package net that only claims to be context.Canceled.
func calledOff(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	return err
}

func TestFailureOfInterruptionsIsNone(t *testing.T) {
	full := errors.New("no space left on device")
	wrapped := fmt.Errorf("saving: %w", errors.Join(context.Canceled, full))
	for _, c := range []struct {
		name string
		err  error
		want string // empty: none
	}{
		{"nothing", nil, ""},
		{"an interruption", context.Canceled, ""},
		{"one that is wrapped", &url.Error{Op: "GET", URL: "u", Err: fmt.Errorf("asking: %w", context.Canceled)}, ""},
		{"one of package net", calledOff(t), ""},
		{"several", errors.Join(context.Canceled, fmt.Errorf("b: %w", errors.Join(context.Canceled, context.Canceled))), ""},
		{"a failure", full, full.Error()},
		{"a deadline", context.DeadlineExceeded, context.DeadlineExceeded.Error()},
		{"one joined before a failure", errors.Join(context.Canceled, full), full.Error()},
		{"one joined behind a failure", errors.Join(full, context.Canceled), full.Error()},
		{"one joined deep below", errors.Join(context.Canceled, errors.Join(context.Canceled, errors.Join(io.EOF, context.Canceled))), "EOF"},
		{"one joined, then wrapped", wrapped, wrapped.Error()},
		{"two failures", errors.Join(full, context.Canceled, io.EOF), full.Error() + "\nEOF"},
		{"a sentence of both", fmt.Errorf("%w after %w", full, context.Canceled), full.Error() + " after context canceled"},
		{"a wrapper of nothing", fmt.Errorf("%w", error(nil)), fmt.Errorf("%w", error(nil)).Error()},
	} {
		got := Failure(c.err)
		if c.want == "" && got != nil || c.want != "" && (got == nil || got.Error() != c.want) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
	if got := Failure(wrapped); !errors.Is(got, full) {
		t.Errorf("%v does not wrap its failure", got)
	}
}

func TestUnfinishedWorkIsAnError(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{nil, nil}, {fmt.Errorf("reading: %w", context.Canceled), errors.New("interrupted")}, {errors.Join(context.Canceled, io.EOF), io.EOF},
	} {
		if got := Unfinished(c.err); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestGroupReturnsTheFailureBehindAnInterruption(t *testing.T) {
	for _, c := range []struct{ last, want error }{{io.EOF, io.EOF}, {nil, context.Canceled}, {errors.Join(context.Canceled, io.EOF), io.EOF}} {
		outer, stop := context.WithCancel(t.Context())
		all, ctx := WithContext(outer)
		all.Go(func() error { <-outer.Done(); return outer.Err() })
		all.Go(func() error { <-ctx.Done(); return c.last })
		all.Go(func() error { <-ctx.Done(); return ctx.Err() })
		stop()
		if err := all.Wait(); !errors.Is(err, c.want) || c.want != context.Canceled && errors.Is(err, context.Canceled) { //nolint:errorlint // the very one
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	all, ctx := WithContext(t.Context())
	all.Go(func() error { return io.EOF })
	all.Go(func() error { <-ctx.Done(); return ctx.Err() })
	if err := all.Wait(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

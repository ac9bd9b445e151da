package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

// A process that was asked to stop, and could not write what it had in hand, has failed.
func TestExitCodeTellsOfWhatFailedAtTheEnd(t *testing.T) {
	full := errors.New("no space left on device")
	for _, c := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""},
		{fmt.Errorf("reading: %w", context.Canceled), 0, ""},
		{errors.Join(context.Canceled, context.Canceled), 0, ""},
		{full, 1, "trainer: no space left on device\n"},
		{errors.Join(context.Canceled, full), 1, "trainer: no space left on device\n"},
		{errors.Join(full, fmt.Errorf("reading: %w", context.Canceled), errors.New("LR is 0")), 1, "trainer: no space left on device\ntrainer: LR is 0\n"},
	} {
		var said bytes.Buffer
		if code := report(&said, "trainer", c.err); code != c.code || said.String() != c.said {
			t.Errorf("%v: code %d and %q, want %d and %q", c.err, code, said.String(), c.code, c.said)
		}
	}
}

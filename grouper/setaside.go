package grouper

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// SetAsideError reports a group of which no batch can be made.
type SetAsideError struct {
	Group schemas.GroupID
	Why   string
}

// Error implements error.
func (e *SetAsideError) Error() string {
	return fmt.Sprintf("group set aside: %s: %s", e.Group, e.Why)
}

// addHeld adds a record that was held back because it belongs to the group after an incomplete one.
func (l *Lane) addHeld(ctx context.Context, held **Input, add func(context.Context, Input, Emit) error, emit Emit) error {
	if *held == nil {
		return nil
	}
	in := **held
	*held = nil
	if err := add(ctx, in, emit); errors.Is(err, ErrUnexpected) {
		return l.setAside(err.Error())
	} else if err != nil {
		return err
	}
	return nil
}

// setAside gives up the open group. The next one has the same options if something of it is held already: its batches
// lead back to before this group.
func (l *Lane) setAside(why string) error {
	group := l.members.manifest.Group
	if len(l.window) > 0 { // whose options stay
		l.groupState, l.stage = groupState{}, readGroup
		return &SetAsideError{group, why}
	}
	l.end(l.options)
	if l.BetweenGroups() {
		l.options = l.next
	}
	return &SetAsideError{group, why}
}

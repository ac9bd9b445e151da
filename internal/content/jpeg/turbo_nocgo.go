//go:build !cgo

package jpeg

import (
	"errors"
	"image"
)

// hasTurbo is for tests.
const hasTurbo = false

var errNoTurbo = errors.New("built without cgo")

func decodeTurbo([]byte, image.Point, int) (*RGB, error) { return nil, errNoTurbo }

// ReturnMemory does nothing: no memory of C is in use.
func ReturnMemory() {}

//go:build !cgo

package jpeg

import (
	"errors"
	"image"
)

// hasTurbo is for tests.
const hasTurbo = false

var errNoTurbo = errors.New("libjpeg-turbo: built without cgo")

func decodeTurbo([]byte, image.Point, int) (*RGB, error) { return nil, errNoTurbo }

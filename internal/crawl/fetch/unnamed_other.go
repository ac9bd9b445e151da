//go:build !linux

package fetch

import (
	"errors"
	"os"
)

func unnamed() (*os.File, error) { return nil, errors.ErrUnsupported }

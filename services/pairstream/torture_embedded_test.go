//go:build cgo && torture

package main

import (
	"testing"

	"github.com/pairstream/pairstream/internal/testing/torture"
)

func TestTorture(t *testing.T) {
	images := append(torture.ManyLarge(), torture.Images()...)
	tortured(t, "embedded", startBroker(t), images, torture.Records())
}

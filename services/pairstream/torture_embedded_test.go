//go:build cgo && torture

package main

import (
	"testing"

	"github.com/pairstream/pairstream/internal/testing/torture"
)

func TestTorture(t *testing.T) {
	tortured(t, "embedded", startBroker(t), torture.Images(), torture.Records())
}

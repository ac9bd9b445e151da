package model_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/testing/golden"
)

func TestMain(m *testing.M) { golden.Main(m) }

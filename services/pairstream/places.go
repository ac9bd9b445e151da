package main

import (
	"strings"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/shard"
)

// tarsUse is how commands call the tars that they read.
const tarsUse = "DIR|TAR|URL..."

// places returns the paths of a command, with the options of the roots in BUCKET_ROOTS that they lie under.
func places(paths []string) []string {
	return shard.WithOptions(paths, strings.Split(config.Environ()["BUCKET_ROOTS"], ","))
}

//go:build cgo

package main

import (
	"os"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/config"
)

// placesIn returns the files and folders that settings name. No folder that a command empties may hold one.
func placesIn(environ map[string]string) (found []ownedfolder.Place) {
	var seen []string
	for _, s := range config.Settings(pipeline{}) {
		if slices.Contains(seen, s.Variable) {
			continue
		}
		seen = append(seen, s.Variable)
		for value := range strings.SplitSeq(environ[s.Variable], ",") {
			value = shard.LocalPath(strings.TrimSpace(value))
			if _, err := os.Stat(value); err == nil && !shard.IsRemote(value) {
				found = append(found, ownedfolder.Place{Setting: s.Variable, Path: value})
			}
		}
	}
	return found
}

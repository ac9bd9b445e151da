package main

import (
	"net/url"
	"strings"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/shard"
)

// tarsUse is how commands call the tars that they read.
const tarsUse = "DIR|TAR|URL..."

// places returns the paths of a command. A URL without options, such as s3://bucket/prefix/, takes those of the root of
// BUCKET_ROOTS that it lies under: the endpoint and region of a store are written down once.
func places(paths []string) []string {
	roots := strings.Split(config.Environ()["BUCKET_ROOTS"], ",")
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = withOptions(p, roots)
	}
	return out
}

func withOptions(p string, roots []string) string {
	place, err := url.Parse(p)
	if !shard.IsRemote(p) || err != nil || place.RawQuery != "" {
		return p
	}
	longest := -1
	for _, raw := range roots {
		root, err := url.Parse(strings.TrimSpace(raw))
		if err != nil || root.Scheme != place.Scheme || root.Host != place.Host {
			continue // a root that is no URL is refused by who opens it
		}
		prefix := strings.Trim(root.Path, "/") + "/"
		if inside := prefix == "/" || strings.HasPrefix(strings.Trim(place.Path, "/")+"/", prefix); inside && len(prefix) > longest {
			longest, place.RawQuery = len(prefix), root.RawQuery
		}
	}
	return place.String()
}

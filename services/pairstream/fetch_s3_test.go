//go:build cgo && s3

package main

import (
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/s3test"
)

// TestS3Fetch does the same as TestFetcherKilled. The tars go into a bucket.
func TestS3Fetch(t *testing.T) { bucketFetchersKilled(t, "embedded", startBroker(t)) }

func bucketFetchersKilled(t *testing.T, kind, brokers string) {
	server := s3test.Start(t)
	server.Dir(t, "crawl")
	t.Setenv("KAFKA_BROKERS", brokers)
	fetchersKilled(t, "a bucket", kind, func(round int) string { return server.URL(fmt.Sprintf("crawl/out-%d/", round)) })
}

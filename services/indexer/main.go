// Command indexer runs the indexer as a process of its own. Settings come from the environment.
package main

import (
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/model/device"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(indexerservice.Name, indexerservice.Run)
}

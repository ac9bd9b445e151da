// Command indexer runs the indexer as a process of its own. Settings come from the environment.
package main

import (
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard/cloud"
	"github.com/pairstream/pairstream/internal/tracing/otlp"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(indexerservice.Name, indexerservice.Run)
}

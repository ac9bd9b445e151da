// Command trainer runs the trainer as a process of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/model/device"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(trainerservice.Name, trainerservice.Run)
}

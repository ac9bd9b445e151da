// Command trainer runs the trainer as a process of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard/cloud"
	"github.com/pairstream/pairstream/internal/tracing/otlp"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(trainerservice.Name, trainerservice.Run)
}

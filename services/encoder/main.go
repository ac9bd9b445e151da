// Command encoder runs the encoder as a process of its own. Settings come from the environment.
package main

import (
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard/cloud"
	"github.com/pairstream/pairstream/internal/tracing/otlp"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(encoderservice.Name, encoderservice.Run)
}

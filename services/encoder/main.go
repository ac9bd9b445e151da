// Command encoder runs the encoder as a process of its own. Settings come from the environment.
package main

import (
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/model/device"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(encoderservice.Name, encoderservice.Run)
}

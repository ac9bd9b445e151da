// Command discriminator runs the discriminator as a process of its own. Settings come from the environment.
package main

import (
	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/model/device"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(discriminatorservice.Name, discriminatorservice.Run)
}

// Command discriminator runs the discriminator as a process of its own. Settings come from the environment.
package main

import (
	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard/cloud"
	"github.com/pairstream/pairstream/internal/tracing/otlp"
)

func main() {
	cloud.Use()
	otlp.Use()
	device.Main(discriminatorservice.Name, discriminatorservice.Run)
}

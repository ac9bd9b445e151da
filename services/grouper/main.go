// Command grouper runs the grouper as a process of its own. Settings come from the environment.
package main

import (
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/process/service"
)

func main() {
	otlp.Use()
	service.Main(grouperservice.Name, service.NoFacts, grouperservice.Run)
}

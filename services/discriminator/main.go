// Command discriminator runs the discriminator stage as a service of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/scoring"
)

func main() { service.Main("discriminator", scoring.Main) }

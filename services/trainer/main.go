// Command trainer runs the trainer stage as a service of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/training"
)

func main() { service.Main("trainer", training.Main) }

// Command trainer runs the trainer as a process of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service/device"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

func main() { device.Main(trainerservice.Name, trainerservice.Run) }

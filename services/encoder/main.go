// Command encoder runs the encoder as a process of its own. Settings come from the environment.
package main

import (
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	"github.com/pairstream/pairstream/internal/service/device"
)

func main() { device.Main(encoderservice.Name, encoderservice.Run) }

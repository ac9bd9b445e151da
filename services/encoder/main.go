// Command encoder runs the encoder stage as a service of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/encoding"
)

func main() { service.Main("encoder", encoding.Main) }

// Command grouper runs the grouper stage as a service of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/grouping"
)

func main() { service.Main("grouper", grouping.Main) }

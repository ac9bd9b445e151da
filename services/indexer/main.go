// Command indexer runs the indexer stage as a service of its own. Settings come from the environment.
package main

import (
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/indexing"
)

func main() { service.Main("indexer", indexing.Main) }

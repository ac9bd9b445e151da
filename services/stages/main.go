// Command stages is the stages with tensors in one binary, for images: it is the stage by whose name it is called
// (encoder, indexer, discriminator, trainer), and libtorch, clients of buckets and Kafka are in the image once.
// Settings come from the environment.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/encoding"
	"github.com/pairstream/pairstream/internal/service/indexing"
	"github.com/pairstream/pairstream/internal/service/scoring"
	"github.com/pairstream/pairstream/internal/service/training"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "encoder":
		service.Main(name, encoding.Main)
	case "indexer":
		service.Main(name, indexing.Main)
	case "discriminator":
		service.Main(name, scoring.Main)
	case "trainer":
		service.Main(name, training.Main)
	default:
		service.Exit(name, fmt.Errorf("called as %q, want encoder, indexer, discriminator or trainer", name))
	}
}

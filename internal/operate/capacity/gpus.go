package capacity

import (
	"fmt"
	"strings"
)

// gpus holds the figures of data sheets: dense matrix products in bfloat16, and memory.
var gpus = []GPU{
	{"a100", 312e12, 2.039e12, 80e9}, // SXM, 80 GB
	{"l40s", 362e12, 0.864e12, 48e9},
	{"h100", 989e12, 3.35e12, 80e9}, // SXM
	{"h200", 989e12, 4.8e12, 141e9}, // SXM
}

// GPUNames lists the kinds of GPUs.
func GPUNames() []string {
	var names []string
	for _, g := range gpus {
		names = append(names, g.Name)
	}
	return names
}

// GPUOf returns a kind of GPU by its name.
func GPUOf(name string) (GPU, error) {
	for _, g := range gpus {
		if g.Name == name {
			return g, nil
		}
	}
	return GPU{}, fmt.Errorf("--gpu is %q, want one of %s", name, strings.Join(GPUNames(), ", "))
}

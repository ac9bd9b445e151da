// Package instructions says which vector instructions the code of this process uses: all that the processor has, or fewer,
// to measure and test as on another processor.
//
// The environment variable [Variable] names the widest that are used. It is for development, and no setting of a service.
// Results are the same with all of them, so that nothing but time depends on it. The C++ code of internal/model/torch and
// internal/neighbors/knn/cpu reads the same variable. Libraries have switches of their own, which [Environment] sets.
package instructions

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/cpu"
)

// Variable is the name of the environment variable: [Portable], [AVX2], or nothing for all that the processor has.
const Variable = "PAIRSTREAM_INSTRUCTIONS"

// The sets that a process can be limited to.
const (
	Portable = "portable" // what the compiler makes of plain code
	AVX2     = "avx2"     // AVX2 and FMA, without AVX-512
)

// What this process uses.
var (
	HasAVX2       = atLeast(AVX2) && cpu.X86.HasAVX2
	HasAVX512     = atLeast("") && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ
	HasVNNI       = HasAVX512 && cpu.X86.HasAVX512VNNI
	HasVBMI       = HasAVX512 && cpu.X86.HasAVX512VBMI
	HasBFloat16   = HasAVX512 && cpu.X86.HasAVX512BF16
	HasDotProduct = atLeast("") && cpu.ARM64.HasASIMDDP // of 8-bit integers, on arm64
)

// atLeast says whether the instructions of a set may be used.
func atLeast(set string) bool {
	switch limit := os.Getenv(Variable); limit {
	case "":
		return true
	case AVX2:
		return set == AVX2
	case Portable:
		return false
	default:
		panic(fmt.Sprintf("%s is %q, want %q, %q or nothing", Variable, limit, AVX2, Portable))
	}
}

// Names lists what this process uses, for figures: "AVX2, AVX-512, VNNI".
func Names() string {
	var names []string
	for _, set := range []struct {
		has  bool
		name string
	}{
		{HasAVX2, "AVX2"},
		{HasAVX512, "AVX-512"},
		{HasVNNI, "VNNI"},
		{HasVBMI, "VBMI"},
		{HasBFloat16, "bfloat16"},
		{HasDotProduct, "SDOT"},
	} {
		if set.has {
			names = append(names, set.name)
		}
	}
	if len(names) == 0 {
		return Portable
	}
	return strings.Join(names, ", ")
}

// Environment returns the variables that limit a process to AVX2: the code of pairstream, and the libraries that it and its
// peers compute with. Those that a library does not read do no harm.
func Environment() []string {
	return []string{
		Variable + "=" + AVX2,
		"ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "DNNL_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2",
		"OPENBLAS_CORETYPE=Haswell", "FAISS_OPT_LEVEL=avx2", "FAISS_SIMD_LEVEL=AVX2", // of FAISS before 1.13 and since
		"NPY_DISABLE_CPU_FEATURES=X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
	}
}

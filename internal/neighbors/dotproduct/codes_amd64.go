package dotproduct

import "golang.org/x/sys/cpu"

var hasCodes = cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512BW

// lookVector compares an anchor of quads groups of four codes, a multiple of four, with count panels. It stops at the
// first where a sum is not below least, writes that panel's sums and bits to p, and returns how many it has passed. It
// needs AVX-512 VNNI.
//
//go:noescape
func lookVector(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)

// Package rng makes the random generators of every stage.
//
// A generator is keyed by what it is for: the run's seed, a purpose and some numbers (group, epoch, batch, ...). Two
// calls with the same key give the same sequence on every machine, and a restarted stage needs no saved generator
// state. There is no global generator and none is seeded from the clock.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// New returns the generator of (seed, purpose, keys). It is not safe for concurrent use.
func New(seed uint64, purpose string, keys ...int64) *rand.Rand {
	h := sha256.New()
	var word [8]byte
	put := func(v uint64) {
		binary.LittleEndian.PutUint64(word[:], v)
		h.Write(word[:])
	}
	put(seed)
	put(uint64(len(purpose)))
	h.Write([]byte(purpose))
	for _, k := range keys {
		put(uint64(k))
	}
	return rand.New(rand.NewChaCha8([32]byte(h.Sum(nil))))
}

"""The random generators of the Go programs: the same key gives the same numbers, on every machine.

A generator is keyed by what it is for: the run's seed, a purpose and some numbers (lane, group, epoch, batch, row). So a
resumed run draws alike without any saved state. The stream is Go's ChaCha8 (math/rand/v2).
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_CONSTANTS = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], dtype=np.uint32)

_TURN = [np.roll(np.arange(4), -k) for k in range(4)]
_SHIFTS = [np.uint32(k) for k in range(32)]


def _block(key: NDArray[np.uint32], counter: int) -> list[int]:
    """Return 32 values: four ChaCha8 blocks side by side, words of the four interlaced."""
    state = np.empty((16, 4), dtype=np.uint32)
    state[:4] = _CONSTANTS[:, None]
    state[4:12] = key[:, None]
    state[12] = np.arange(counter, counter + 4, dtype=np.uint32)
    state[13:] = 0
    b = state.copy()
    one, two, three, four = b[:4], b[4:8], b[8:12], b[12:]
    high, low = np.empty_like(one), np.empty_like(one)
    for half in range(8):
        if half % 2:  # diagonals: lines up what belongs together
            two[:], three[:], four[:] = two[_TURN[1]], three[_TURN[2]], four[_TURN[3]]
        for x, y, z, shift in ((one, two, four, 16), (three, four, two, 12), (one, two, four, 8), (three, four, two, 7)):
            x += y
            z ^= x
            np.left_shift(z, _SHIFTS[shift], out=high)
            np.right_shift(z, _SHIFTS[32 - shift], out=low)
            np.bitwise_or(high, low, out=z)
        if half % 2:
            two[:], three[:], four[:] = two[_TURN[3]], three[_TURN[2]], four[_TURN[1]]
    b[4:12] += key[:, None]  # only the key is added again
    flat: list[int] = b.reshape(-1).astype("<u4").view("<u8").tolist()
    return flat


class Generator:
    """Draws like Go's rand.Rand over ChaCha8."""

    def __init__(self, seed: bytes) -> None:
        self._key = np.frombuffer(seed, dtype="<u4").astype(np.uint32)
        self._counter = -4  # numbers are made when one is drawn: many transforms draw none
        self._values: list[int] = []
        self._next = self._end = 0

    def uint64(self) -> int:
        """Draw 64 bits."""
        if self._next == self._end:
            self._refill()
        self._next += 1
        return self._values[self._next - 1]

    def _refill(self) -> None:
        self._counter += 4
        if self._counter == 16:  # the last values of a buffer are the next key
            self._key = np.array(self._values[28:], dtype="<u8").view("<u4").astype(np.uint32)
            self._counter = 0
        self._values = _block(self._key, self._counter)
        self._next, self._end = 0, 28 if self._counter == 12 else 32

    def random(self) -> float:
        """Draw from [0, 1)."""
        return (self.uint64() << 11 & _MASK) / (1 << 64)

    def integer(self, n: int) -> int:
        """Draw from 0..n-1, for n below 2^32, as Go's IntN does."""
        if n & (n - 1) == 0:
            return self.uint64() & (n - 1)
        product = (self.uint64() >> 32) * n
        if product & 0xFFFFFFFF < n:
            threshold = (1 << 32) % n
            while product & 0xFFFFFFFF < threshold:
                product = (self.uint64() >> 32) * n
        return product >> 32

    def permutation(self, n: int) -> list[int]:
        """Draw an order of 0..n-1, as Go's Perm does."""
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.integer(i + 1)
            order[i], order[j] = order[j], order[i]
        return order


def generator(seed: int, purpose: str, *keys: int) -> Generator:
    """Return the generator of a seed, a purpose and numbers."""
    h = hashlib.sha256(struct.pack("<QQ", seed, len(purpose.encode())) + purpose.encode())
    for key in keys:
        h.update(struct.pack("<q", key))
    return Generator(h.digest())

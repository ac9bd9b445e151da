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


def _block(key: NDArray[np.uint32], counter: int) -> list[int]:
    """Return 32 values: four ChaCha8 blocks side by side, words of the four interlaced."""
    state = np.empty((16, 4), dtype=np.uint32)
    state[:4] = _CONSTANTS[:, None]
    state[4:12] = key[:, None]
    state[12] = np.arange(counter, counter + 4, dtype=np.uint32)
    state[13:] = 0
    b = state.copy()
    for _ in range(4):
        for columns in (((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)), ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))):
            i, j, k, m = (list(rows) for rows in zip(*columns, strict=True))
            for x, y, z, shift in ((i, j, m, 16), (k, m, j, 12), (i, j, m, 8), (k, m, j, 7)):
                b[x] += b[y]
                b[z] ^= b[x]
                b[z] = (b[z] << np.uint32(shift)) | (b[z] >> np.uint32(32 - shift))
    b[4:12] += key[:, None]  # only the key is added again
    flat: list[int] = b.reshape(-1).astype("<u4").view("<u8").tolist()
    return flat


class Generator:
    """Draws like Go's rand.Rand over ChaCha8."""

    def __init__(self, seed: bytes) -> None:
        self._key = np.frombuffer(seed, dtype="<u4").astype(np.uint32)
        self._counter = 0
        self._values = _block(self._key, 0)
        self._next, self._end = 0, 32

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


def generator(seed: int, purpose: str, *keys: int) -> Generator:
    """Return the generator of a seed, a purpose and numbers."""
    h = hashlib.sha256(struct.pack("<QQ", seed, len(purpose.encode())) + purpose.encode())
    for key in keys:
        h.update(struct.pack("<q", key))
    return Generator(h.digest())

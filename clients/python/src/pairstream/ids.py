"""Ids and lanes, equal to those of the Go programs."""

from __future__ import annotations

import hashlib

Buffer = bytes | bytearray | memoryview


def image_id(encoded: Buffer) -> bytes:
    """Return the id of an image: a hash of its encoded bytes (of the JPEG file, not of its pixels)."""
    return hashlib.sha256(encoded).digest()[:16]


def pair_id(image: bytes, caption: str | bytes) -> bytes:
    """Return the id of a pair: a hash of its image's id and its caption. The same pair published twice is one pair."""
    text = caption.encode() if isinstance(caption, str) else caption
    return hashlib.sha256(image + text).digest()[:16]


def lane_of(image: bytes, lanes: int) -> int:
    """Return the partition, out of lanes, in which all pairs of an image belong. It follows from the image's id."""
    return int.from_bytes(image[:4], "big") % lanes

"""What a Python program needs to know of pairstream's records; schemas/asyncapi.yaml describes all of them."""

import hashlib
import struct

import msgpack

PAIR = "pairstream.pair/1"
SEAL = "pairstream.seal/1"


def image_id(encoded: bytes) -> bytes:
    """The id of an image: a hash of its encoded bytes (of the JPEG file, not of its pixels)."""
    return hashlib.sha256(encoded).digest()[:16]


def pair_id(image: bytes, caption: str) -> bytes:
    """The id of a pair: a hash of its image's id and its caption, so the same pair published twice is one pair."""
    return hashlib.sha256(image + caption.encode()).digest()[:16]


def lane(pair: bytes, lanes: int) -> int:
    """The partition, out of lanes, that a pair belongs in."""
    return int.from_bytes(pair[:4], "big") % lanes


def inline_pair(encoded: bytes, caption: str) -> dict:
    """A pair that carries its image; for producers without a bucket."""
    image = image_id(encoded)
    return {"id": pair_id(image, caption), "image_id": image, "inline": encoded, "caption": caption}


def pair_by_reference(encoded: bytes, caption: str, uri: str, offset: int = 0) -> dict:
    """A pair whose image lies at offset in an object of a bucket."""
    image = image_id(encoded)
    where = {"uri": uri, "offset": offset, "size": len(encoded)}
    return {"id": pair_id(image, caption), "image_id": image, "image": where, "caption": caption}


def pack(record: dict) -> bytes:
    """Encodes a record: bytes become bin, str becomes str."""
    return msgpack.packb(record, use_bin_type=True)


def unpack(value: bytes) -> dict:
    """Decodes a record."""
    return msgpack.unpackb(value, raw=False)


def int32s(column) -> tuple:
    """The values of a column of integers; an empty one is left out of its record."""
    column = column or b""
    return struct.unpack(f"<{len(column) // 4}i", column)


def float32s(column) -> tuple:
    """The values of a column of floats."""
    column = column or b""
    return struct.unpack(f"<{len(column) // 4}f", column)


def vectors(column: bytes, dim: int) -> list:
    """The rows of a run of float16 vectors."""
    values = struct.unpack(f"<{len(column) // 2}e", column)
    return [values[i : i + dim] for i in range(0, len(values), dim)]


def topic_name(topic: str, namespace: str) -> str:
    """The name of a topic on the broker."""
    return f"{namespace}.{topic}" if namespace else topic

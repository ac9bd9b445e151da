"""Entries of a tar with their offsets. Unlike tarfile, it goes on after a damaged header and tells a cut tar from a whole one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 512
_MAX_SPECIAL = 1 << 20  # bytes of extended headers and long names, as in Go's archive/tar
_HEADER_ONLY = frozenset({b"1", b"2", b"3", b"4", b"5", b"6"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a tar."""

    name: str
    typeflag: bytes
    sparse: bool
    header: int  # offset of its first header block
    data: int  # offset of its contents
    size: int  # declared
    present: int  # bytes of the contents that the tar holds: less than size when it is cut

    @property
    def end(self) -> int:
        """Return where the next header lies."""
        return self.data + -(-self.present // BLOCK) * BLOCK


@dataclass(frozen=True, slots=True)
class Damage:
    """There is no sound header at an offset."""

    offset: int
    reason: str
    detail: str
    then: int = -1  # offset of the next sound header; -1: there is none


class _HeaderError(Exception):
    pass


class _Ends(Exception):
    """The file ends where a header, or the entry that it describes, goes on."""

    def __init__(self, detail: str = "the tar ends inside a header") -> None:
        super().__init__(detail)


class _End(Exception):
    """The tar's end was read; marker tells whether it was marked, and behind what lies after the mark."""

    def __init__(self, marker: bool, behind: int) -> None:
        self.marker, self.behind = marker, behind


@dataclass(frozen=True, slots=True)
class Marker:
    """An end marker, behind which another tar lies."""

    then: int  # offset of its first header


def entries(file: BinaryIO) -> Iterator[Entry | Damage | Marker]:
    """Yield the members of a tar, and of those behind it; after a damaged header it goes on at the next sound one."""
    size = os.fstat(file.fileno()).st_size if hasattr(file, "fileno") else file.seek(0, os.SEEK_END)
    at = 0
    while True:
        try:
            entry = _next(file, at, size)
        except _End as end:
            if not end.marker:
                yield Damage(min(at, size), "tar_no_end", "the tar has no end marker: it may have been cut")
                return
            at, odd = _resync(file, end.behind)
            if odd >= 0:
                yield Damage(odd, "tar_header", "no sound tar header behind the tar's end marker", at)
            elif at >= 0:
                yield Marker(at)
            if at < 0:
                return
            continue
        except _Ends as ends:
            yield Damage(at, "tar_cut", _damage(file, at, str(ends)))
            return
        except _HeaderError:
            damaged = at
            at, _ = _resync(file, at + BLOCK)
            yield Damage(damaged, "tar_header", _damage(file, damaged, "no sound tar header"), at)
            if at < 0:
                return
            continue
        yield entry
        if entry.present < entry.size:
            return
        at = entry.end


_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
)


def _damage(file: BinaryIO, at: int, otherwise: str) -> str:
    """Say what is wrong at an offset: the whole file, if it is compressed."""
    if at:
        return otherwise
    file.seek(0)
    head = file.read(10)
    how = next((name for start, name in _COMPRESSIONS if head.startswith(start)), "")
    if head.startswith(b"BZh") and head[4:] == b"1AY&SY":
        how = "bzip2"
    return f"the tar is compressed ({how}): decompress it first" if how else otherwise


def _next(file: BinaryIO, head: int, size: int) -> Entry:
    """Read the header at an offset, with the extended headers and long names before it."""
    pax: dict[str, str] = {}
    long_name = ""
    at = head
    while True:
        try:
            block = _block(file, at)
        except _End as end:
            if at > head and not end.marker and _last_block(file):
                raise _Ends("the tar ends behind a header that describes an entry") from None
            raise _End(end.marker or at > head, end.behind) from None
        at += BLOCK
        flag, length = block[156:157], _number(block[124:136])
        if length < 0:
            raise _HeaderError
        if flag in (b"x", b"L", b"K", b"g"):
            if length > _MAX_SPECIAL:
                raise _HeaderError
            body = file.read(length)
            if len(body) < length:
                raise _Ends
            at += -(-length // BLOCK) * BLOCK
            if flag == b"x":
                pax = _pax(body)
            elif flag == b"g":
                _pax(body)
                return Entry("", flag, False, head, at, 0, 0)
            elif flag == b"L":
                long_name = body.partition(b"\0")[0].decode(errors="surrogateescape")
            continue
        return _entry(block, head, at, size, length, pax, long_name)


def _entry(block: bytes, head: int, data: int, size: int, length: int, pax: dict[str, str], long_name: str) -> Entry:
    name = long_name or _name(block)
    name = pax.get("path") or name
    if "size" in pax:
        if not re.fullmatch(r"[+-]?[0-9]+", pax["size"], re.ASCII):
            raise _HeaderError
        length = _int64(pax["size"].encode())
        if length < 0:
            raise _HeaderError
    flag = block[156:157]
    if flag == b"\0":
        flag = b"5" if name.endswith("/") else b"0"
    sparse = flag == b"S" or any(key.startswith("GNU.sparse.") for key in pax)
    if flag in _HEADER_ONLY or sparse:
        length = 0
    present = max(0, min(length, size - data))
    return Entry(name, flag, sparse, head, data, length, present)


def _block(file: BinaryIO, at: int) -> bytes:
    """Read the header block at an offset and check it."""
    file.seek(at)
    block = file.read(BLOCK)
    if not block:
        raise _End(marker=False, behind=at)
    if len(block) < BLOCK:
        raise _Ends
    if not any(block):
        second = file.read(BLOCK)
        if not second or (len(second) == BLOCK and not any(second)):
            raise _End(marker=True, behind=at + BLOCK + len(second))
        raise _Ends if len(second) < BLOCK else _HeaderError
    unsigned = sum(block[:148]) + 8 * 32 + sum(block[156:])
    signed = unsigned - 256 * sum(b > 127 for b in block[:148] + block[156:])
    if _number(block[148:156]) not in (unsigned, signed):
        raise _HeaderError
    numbers = [block[100:108], block[108:116], block[116:124], block[136:148]]
    if block[257:262] == b"ustar":
        numbers += [block[329:337], block[337:345]]
    for field in numbers:
        _number(field)
    return block


def _last_block(file: BinaryIO) -> bool:
    """Report whether the last block of a file holds more than zeros."""
    file.seek(-BLOCK, os.SEEK_END)
    return any(file.read(BLOCK))


def _number(field: bytes) -> int:
    """Read an octal or a base-256 number."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] & 0x40:
            value -= 1 << (8 * len(field) - 1)
        if not -(1 << 63) <= value < 1 << 63:
            raise _HeaderError
        return value
    digits = field.strip(b" \0").partition(b"\0")[0]
    if not digits:
        return 0
    if not re.fullmatch(rb"[0-7]+", digits):
        raise _HeaderError
    return int(digits, 8)


def _name(block: bytes) -> str:
    name = block[:100].partition(b"\0")[0]
    if block[257:263] == b"ustar\0":
        star = block[508:512] == b"tar\0"
        prefix = block[345 : 476 if star else 500].partition(b"\0")[0]
        if prefix:
            name = prefix + b"/" + name
    return name.decode(errors="surrogateescape")


def _pax(body: bytes) -> dict[str, str]:
    """Read the records "LENGTH key=value\\n" of an extended header."""
    out: dict[str, str] = {}
    at = 0
    while at < len(body):
        space = body.find(b" ", at)
        digits = body[at:space]
        if space < 0 or not digits.isdigit():
            raise _HeaderError
        end = at + _int64(digits)
        if end > len(body) or end < space + 2 or body[end - 1 : end] != b"\n":
            raise _HeaderError
        key, equals, value = body[space + 1 : end - 1].partition(b"=")
        if not equals or not key:
            raise _HeaderError
        out[key.decode(errors="surrogateescape")] = value.decode(errors="surrogateescape")
        at = end
    return out


def _int64(text: bytes) -> int:
    """Read a decimal number of 64 bits. int refuses one of some thousand digits with another error."""
    digits = text.lstrip(b"+-").lstrip(b"0") or b"0"
    if len(digits) > 19:
        raise _HeaderError
    value = -int(digits) if text.startswith(b"-") else int(digits)
    if not -(1 << 63) <= value < 1 << 63:
        raise _HeaderError
    return value


def _resync(file: BinaryIO, at: int) -> tuple[int, int]:
    """Find the next sound header at or after a block boundary, and the first block on the way that is not zeros; -1 for none."""
    odd = -1
    while True:
        file.seek(at)
        block = file.read(BLOCK)
        if len(block) == BLOCK and _sound(block):
            return at, odd
        if odd < 0 and any(block):
            odd = at
        if len(block) < BLOCK:
            return -1, odd
        at += BLOCK


def _sound(block: bytes) -> bool:
    """Report whether a block has the magic of a POSIX or GNU header and its own checksum."""
    field = block[148:156].strip(b" \0")
    if block[257:262] != b"ustar" or not re.fullmatch(rb"[+-]?[0-7]+", field):
        return False
    return int(field, 8) == sum(block[:148]) + 8 * 32 + sum(block[156:])

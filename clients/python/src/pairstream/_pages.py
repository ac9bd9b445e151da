"""Bounds of the pages of a Parquet file, by the rules of internal/crawl/table.

Arrow makes room for what the head of a page announces. A few bytes may stand for gigabytes of zeros, or for millions of nulls. And what it
tells of a damaged footer's columns may end the process: pyarrow 26 has no exception for it. So footer and heads are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

MAX_BYTES = 512 << 20  # that pages take which are decoded at once
_VALUE_BYTES = 8  # that a value of a page takes beside its bytes
_FIRST_HEAD, _MAX_HEAD = 1 << 10, 4 << 20
_MAX_FOOTER = 64 << 20
_MAX_DEPTH = 32
_END = b"PAR1"  # behind the footer and its length

# Fields of the head of a page. That of the values stands in the head of its kind.
_KIND, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3
_OF_KIND = {5: 2, 7: 2, 8: 4}  # heads of the kinds of pages, and the field of the encoding in each
_DICTIONARY = 2

# Encodings of texts. Of these, Arrow reads one with its lengths before it as it is, and the others as a dictionary: a text that many rows
# share is then kept once, however often the file says it.
LENGTHS, _SHARED = 6, {2, 7, 8}  # DELTA_LENGTH_BYTE_ARRAY; PLAIN_DICTIONARY, DELTA_BYTE_ARRAY and RLE_DICTIONARY


class PagesError(Exception):
    """The pages of a file take too much, or are not where its footer says."""


class Column(NamedTuple):
    """A column of a group of rows, as the footer has it."""

    path: str
    encodings: frozenset[int]
    size: int  # bytes of its pages in the file
    data: int  # place of the first page
    dictionary: int  # place of the dictionary's page; 0: none

    def has_lengths(self) -> bool:
        """Report whether texts are encoded with their lengths before them, and share nothing."""
        return LENGTHS in self.encodings and not _SHARED & self.encodings


def groups(file: BinaryIO, size: int) -> list[list[Column]]:
    """Return the columns of each group of rows. PagesError says that the footer is none."""
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _END or length > min(size - 8, _MAX_FOOTER):
        raise PagesError("its footer is damaged")
    file.seek(size - 8 - length)
    try:
        footer = _Compact(file.read(length)).structure()
        return [[_column(chunk[3]) for chunk in group[1]] for group in footer.get(4, [])]
    except (IndexError, KeyError, TypeError, AttributeError, ValueError):  # it ends early, or a field is of another kind
        raise PagesError("its footer is damaged") from None


def _column(meta: dict[int, Any]) -> Column:
    path = b".".join(meta[3]).decode()
    return Column(path, frozenset(meta[2]), _whole(meta[7]), _whole(meta[9]), _whole(meta.get(11, 0)))


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def dictionaries(of: Iterable[Iterable[Column]], names: Iterable[str]) -> list[str]:
    """Return those of a file's columns of texts that are to be read as dictionaries."""
    columns = [column for group in of for column in group]
    alone = {c.path for c in columns if c.has_lengths()} - {c.path for c in columns if not c.has_lengths()}
    return [name for name in names if name not in alone]


def check(file: BinaryIO, size: int, group: Sequence[Column], *, whole: bool = False) -> None:
    """Refuse a group of rows whose pages take too much: the largest one of each column, or all where whole is said, and dictionaries."""
    total = 0
    for column in group:
        starts = [column.data, column.dictionary] if column.dictionary else [column.data]
        base = starts[-1]
        if base < 0 or starts[0] < base or not 0 <= column.size <= size - base:
            raise PagesError("its pages are not where its footer says")
        total += max(_taken(file, start, base + column.size, whole, column.has_lengths()) for start in starts)
        if total > MAX_BYTES:
            raise PagesError(f"its pages take more than {MAX_BYTES} bytes when they are decoded: write smaller ones")


def _taken(file: BinaryIO, at: int, end: int, whole: bool, lengths: bool) -> int:
    """Return what the pages of a column take. With lengths, all must be encoded so, as the footer says."""
    dictionaries = largest = every = 0
    while at < end and dictionaries + every <= MAX_BYTES:
        head, length = _head(file, at, end)
        of_kind = {field: head[field] for field in _OF_KIND if isinstance(head.get(field), dict)}
        numbers = [head.get(_COMPRESSED, 0), head.get(_UNCOMPRESSED, 0), *(inner.get(1, 0) for inner in of_kind.values())]
        if not all(type(n) is int and n >= 0 for n in numbers) or numbers[0] > end - at - length:
            raise PagesError("its pages are not where its footer says")
        compressed, took, *values = numbers
        if lengths and {inner[_OF_KIND[field]] for field, inner in of_kind.items() if _OF_KIND[field] in inner} != {LENGTHS}:
            raise PagesError("its pages are not encoded as its footer says")
        took += compressed + _VALUE_BYTES * sum(values)
        if head.get(_KIND) == _DICTIONARY:
            dictionaries += took
        else:
            largest, every = max(largest, took), every + took * whole
        at += length + compressed
    return dictionaries + (every if whole else largest)


def _head(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page's head, and its length."""
    room = _FIRST_HEAD
    while True:
        file.seek(at)
        head = _Compact(file.read(min(room, end - at)))
        try:
            return head.structure(), head.at
        except IndexError:
            if room > _MAX_HEAD or room >= end - at:
                raise PagesError("the head of a page ends early, or is none") from None
        room *= 8


class _Compact:
    """Reads Thrift's compact protocol. IndexError means that it goes on."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a structure by their numbers."""
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            if field in fields:
                raise PagesError("the head of a page says a thing twice")  # readers differ in which they take
            fields[field] = head & 15 == 1 if head & 15 < 3 else self._value(head & 15, depth)  # truth values are their type
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise PagesError("the head of a page is nested too deep")
        if kind in (4, 5, 6):
            return self._number()
        if kind == 12:
            return self.structure(depth + 1)
        if kind == 9:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._bytes(1) if head & 15 in (1, 2) else self._value(head & 15, depth + 1) for _ in range(count)]
        if kind in (3, 7, 8):  # a byte, a double, bytes
            return self._bytes(1 if kind == 3 else 8 if kind == 7 else self._varint())
        raise PagesError("the head of a page is none")

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.raw):
            raise IndexError
        return self.raw[self.at - count : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise PagesError("the head of a page is none")

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

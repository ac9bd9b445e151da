"""Bounds of the pages of a Parquet file, by the rules of internal/crawl/table.

Arrow makes room for what the head of a page announces. A few bytes may stand for gigabytes of zeros, or for millions of nulls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

MAX_BYTES = 512 << 20  # that pages take which are decoded at once
_VALUE_BYTES = 8  # that a value of a page takes beside its bytes
_FIRST_HEAD, _MAX_HEAD = 1 << 10, 4 << 20
_MAX_DEPTH = 32

# Fields of the head of a page. That of the values stands in the head of its kind.
_KIND, _UNCOMPRESSED, _COMPRESSED, _VALUES = (0, 1), (0, 2), (0, 3), [(5, 1), (7, 1), (8, 1)]
_DICTIONARY = 2

# Encodings of texts. Of these, Arrow reads one with its lengths before it as it is, and the others as a dictionary: a text that many rows
# share is then kept once, however often the file says it.
_LENGTHS, _ENCODINGS = 6, [(5, 2), (8, 4)]
_SHARED = {"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"}


class PagesError(Exception):
    """The pages of a file take too much, or are not where its footer says."""


def dictionaries(metadata: Any, names: Iterable[str]) -> list[str]:
    """Return those of a file's columns of texts that are to be read as dictionaries."""
    columns = [group.column(i) for group in map(metadata.row_group, range(metadata.num_row_groups)) for i in range(group.num_columns)]
    alone = {c.path_in_schema for c in columns if _has_lengths(c)} - {c.path_in_schema for c in columns if not _has_lengths(c)}
    return [name for name in names if name not in alone]


def _has_lengths(column: Any) -> bool:
    """Report whether texts are encoded with their lengths before them, and share nothing."""
    return "DELTA_LENGTH_BYTE_ARRAY" in column.encodings and not _SHARED & set(column.encodings)


def check(file: BinaryIO, size: int, group: Any, *, whole: bool = False) -> None:
    """Refuse a group of rows whose pages take too much: the largest one of each column, or all where whole is said, and dictionaries."""
    total = 0
    for column in map(group.column, range(group.num_columns)):
        starts = [column.data_page_offset]
        if column.has_dictionary_page and column.dictionary_page_offset:
            starts.append(column.dictionary_page_offset)
        base = starts[-1]
        if base < 0 or starts[0] < base or not 0 <= column.total_compressed_size <= size - base:
            raise PagesError("its pages are not where its footer says")
        total += max(_taken(file, start, base + column.total_compressed_size, whole, _has_lengths(column)) for start in starts)
        if total > MAX_BYTES:
            raise PagesError(f"its pages take more than {MAX_BYTES} bytes when they are decoded: write smaller ones")


def _taken(file: BinaryIO, at: int, end: int, whole: bool, lengths: bool) -> int:
    """Return what the pages of a column take. With lengths, all must be encoded so, as the footer says."""
    dictionaries = largest = every = 0
    while at < end and dictionaries + every <= MAX_BYTES:
        head, length = _head(file, at, end)
        compressed, took = head.get(_COMPRESSED, 0), head.get(_UNCOMPRESSED, 0)
        values = [head.get(field, 0) for field in _VALUES]
        if not 0 <= compressed <= end - at - length or took < 0 or min(values) < 0:
            raise PagesError("its pages are not where its footer says")
        if lengths and {head[field] for field in _ENCODINGS if field in head} != {_LENGTHS}:
            raise PagesError("its pages are not encoded as its footer says")
        took += compressed + _VALUE_BYTES * sum(values)
        if head.get(_KIND) == _DICTIONARY:
            dictionaries += took
        else:
            largest, every = max(largest, took), every + took * whole
        at += length + compressed
    return dictionaries + (every if whole else largest)


def _head(file: BinaryIO, at: int, end: int) -> tuple[dict[tuple[int, int], int], int]:
    """Return the numbers of a page's head, by the field that they stand in and their own, and its length."""
    room = _FIRST_HEAD
    while True:
        file.seek(at)
        head = _Head(file.read(min(room, end - at)))
        try:
            head.structure(0, 0)
            return head.numbers, head.at
        except IndexError:
            if room > _MAX_HEAD or room >= end - at:
                raise PagesError("the head of a page ends early, or is none") from None
        room *= 8


class _Head:
    """Walks over the head of a page in Thrift's compact protocol. IndexError means that it goes on."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.numbers: dict[tuple[int, int], int] = {}

    def structure(self, depth: int, parent: int) -> None:
        if depth > _MAX_DEPTH:
            raise PagesError("the head of a page is nested too deep")
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            if head & 15 > 2:  # the value of the others is their type
                self._value(head & 15, field, depth, parent)

    def _value(self, kind: int, field: int, depth: int, parent: int) -> None:
        if kind in (4, 5, 6):  # integers
            number = self._number()
            if depth < 2:
                self.numbers[parent, field] = number
        elif kind == 12:
            self.structure(depth + 1, field if depth == 0 else parent)
        elif kind == 9:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            for _ in range(count):
                if head & 15 in (1, 2):
                    self._skip(1)
                else:
                    self._value(head & 15, 0, depth + 2, parent)
        elif kind in (3, 7, 8):  # a byte, a double, bytes
            self._skip(1 if kind == 3 else 8 if kind == 7 else self._varint())
        else:
            raise PagesError("the head of a page is none")

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.raw):
            raise IndexError

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

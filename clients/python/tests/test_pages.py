"""What a plan's files say is read before pyarrow reads them: footers and pages."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pairstream import _pages


def varint(n: int) -> bytes:
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def page(kind: int, uncompressed: int, compressed: int, values: int, more: bytes = b"", encoding: int = 0) -> bytes:
    """The head of a page: numbers of the compact protocol, and the head of its kind."""
    numbers = b"".join(b"\x15" + varint(2 * n) for n in (kind, uncompressed, compressed))
    return numbers + more + bytes([0x2C if kind == 0 else 0x4C]) + b"\x15" + varint(2 * values) + b"\x15" + varint(2 * encoding) + b"\x00\x00"


def refusal(raw: bytes, dictionary: int = 0, whole: bool = False, at: int = 4, encodings: tuple[int, ...] = (0,)) -> str:
    """Say why a group of one column with such pages is refused; dictionary is the length of those of its dictionary."""
    column = _pages.Column("x", frozenset(encodings), len(raw), at + dictionary, at if dictionary else 0)
    try:
        _pages.check(io.BytesIO(b"PAR1" + raw), 4 + len(raw), [column], whole=whole)
    except _pages.PagesError as err:
        return str(err)
    return ""


GIB = 1 << 30
BODY = bytes(10)


@pytest.mark.parametrize(
    ("raw", "dictionary", "whole", "says"),
    [
        (page(0, 100, 10, 4) + BODY, 0, False, ""),
        (page(0, 100, 10, 4, b"\x1c\x18\x03abc\x19\x28\x01a\x01b\x11\x13\x05\x17" + bytes(8) + b"\x19\x21\x01\x02\x00") + BODY, 0, False, ""),
        (page(0, GIB, 10, 4) + BODY, 0, False, "take more than"),
        (page(0, 10, 10, 1 << 27) + BODY, 0, False, "take more than"),
        (page(2, GIB, 10, 4) + BODY + page(0, 10, 10, 4) + BODY, len(page(2, GIB, 10, 4) + BODY), False, "take more than"),
        ((page(0, 300 << 20, 10, 4) + BODY) * 2, 0, False, ""),
        ((page(0, 300 << 20, 10, 4) + BODY) * 2, 0, True, "take more than"),
        (page(0, 10, 11, 4) + BODY, 0, False, "are not where its footer says"),
        (page(0, 10, 10, 4)[:-3], 0, False, "ends early"),
        (b"\x15" + b"\xff" * 12, 0, False, "is none"),
        (b"\x1d\x00", 0, False, "is none"),
        (b"\x1c" * 40, 0, False, "nested too deep"),
        (b"\x15\x00\x15\x01\x00", 0, False, "are not where its footer says"),
        (b"\x15\x00\x05\x02\x02" + page(0, 1, 1, 1), 0, False, "says a thing twice"),
        (page(0, 100, 10, 4, b"\x19" + b"\x19" * 40) + BODY, 0, False, "nested too deep"),
    ],
)  # fmt: skip
def test_pages_are_looked_at_before_they_are_decoded(raw: bytes, dictionary: int, whole: bool, says: str) -> None:
    assert says in refusal(raw, dictionary, whole) and bool(says) == bool(refusal(raw, dictionary, whole))


def test_pages_lie_in_their_file() -> None:
    raw = page(0, 100, 10, 4) + BODY
    assert not refusal(raw) and "are not where" in refusal(raw, at=-1) and "are not where" in refusal(raw, at=5)
    lengths = (_pages.LENGTHS,)
    assert refusal(raw, encodings=lengths) == "its pages are not encoded as its footer says", "else a text of a dictionary would be there for every row"
    assert not refusal(page(0, 100, 10, 4, encoding=6) + BODY, encodings=lengths)


def written(**options: object) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"text": ["a", "b", "a"] * 50, "n": list(range(150)), "of": [{"x": [1, 2]}] * 150}), out, row_group_size=60, **options)
    return out.getvalue()


def test_a_footer_is_read_as_pyarrow_reads_it(tmp_path: Path) -> None:
    for options in ({}, {"use_dictionary": False, "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY", "n": "PLAIN", "of.x.list.element": "PLAIN"}}):
        raw = written(**options)
        metadata = parquet.ParquetFile(io.BytesIO(raw)).metadata
        found = _pages.groups(io.BytesIO(raw), len(raw))
        assert len(found) == metadata.num_row_groups == 3
        for i, group in enumerate(found):
            for j, ours in enumerate(group):
                theirs = metadata.row_group(i).column(j)
                assert (ours.path, ours.size, ours.data) == (theirs.path_in_schema, theirs.total_compressed_size, theirs.data_page_offset)
                assert (ours.dictionary or None) == theirs.dictionary_page_offset
                assert ours.has_lengths() == ("DELTA_LENGTH_BYTE_ARRAY" in theirs.encodings)
        assert _pages.dictionaries(found, ["text"]) == (["text"] if not options else [])


@pytest.mark.parametrize("raw", [b"", b"PAR1", written()[:-1], written()[:-8] + b"\xff\xff\xff\x7fPAR1", written()[:-8] + b"\x04\x00\x00\x00PAR1", b"\x00" + b"\x01\x00\x00\x00PAR1"])
def test_no_footer(raw: bytes) -> None:
    try:
        assert _pages.groups(io.BytesIO(raw), len(raw)) == []
    except _pages.PagesError as err:
        assert "damaged" in str(err) or "head of a page" in str(err)

"""Tables (.parquet) beside tars: Python publishes what Go publishes."""

from __future__ import annotations

import io
import random
import sys
import tarfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from test_shards import JPEG, add, compare, notes, produced

from pairstream import Config, PairProducer, SettingError, _pages, _table, marshal, shards, unmarshal
from pairstream._table import base, beside
from pairstream.records import MAX_COLUMN_TEXT, Pair

NewLog = Callable[..., Config]

KEYS = ["000000000", "a/b/000000001", "000000006/", "000000003", "000000003", "//000000004", "000000009", "/", "000000005"]


def crawl(path: Path, count: int = 12, jsons: dict[int, bytes] | None = None) -> None:
    """Write a tar whose every third image has no caption of its own."""
    with tarfile.open(path, "w") as tar:
        for i in range(count):
            key = f"{'some/folder/' if i % 3 == 1 else ''}{i:09}"
            add(tar, f"{key}.jpg", JPEG + bytes([i]))
            if i % 3:
                add(tar, f"{key}.txt", f"caption {i}".encode())
            if i in (jsons or {}):
                add(tar, f"{key}.json", (jsons or {})[i])


def table(n: int = len(KEYS), **more: Any) -> pa.Table:
    """Return a table as img2dataset writes it, with further columns."""
    columns: dict[str, Any] = {
        "url": [f"http://x/{i}" if i % 2 else None for i in range(n)],
        "caption": [(" by the table ", "", "x" * 9000, None, "é\u2028")[i % 5] for i in range(n)],
        "key": [KEYS[i % len(KEYS)] for i in range(n)],
        "status": ["success"] * n,
        "width": pa.array([640 + i if i != 3 else None for i in range(n)], pa.int32()),
        "punsafe": pa.array([i / 3 for i in range(n)], pa.float32()),
        "exif": ["{}" if i % 2 else "y" * 1025 for i in range(n)],
        "tags": [["a", "b"]] * n,
    }
    return pa.table(columns | more)


def kinds(n: int = len(KEYS)) -> dict[str, Any]:
    """Return columns of every type that a row may take, and of some that it leaves out."""
    return {
        "none": pa.nulls(n), "yes": pa.array([i % 2 == 0 for i in range(n)]), "tiny": pa.array([-i for i in range(n)], pa.int8()),
        "unsigned": pa.array([2**32 - 1 - i for i in range(n)], pa.uint32()), "large": pa.array([2**64 - 1 - i if i % 2 else i for i in range(n)], pa.uint64()),
        "double": [(float("nan"), float("inf"), 1e300, -0.0)[i % 4] for i in range(n)], "half": pa.array(np.full(n, 1.5, np.float16)),
        "date": pa.array([20000 + i for i in range(n)], pa.date32()), "seconds": pa.array(list(range(n)), pa.time32("s")), "nanos": pa.array([10**18 + i for i in range(n)], pa.timestamp("ns", "UTC")),
        "long": pa.array([1 << 40] * n, pa.duration("us")), "price": pa.array([Decimal("1.23")] * n), "category": pa.array([f"c{i % 2}" for i in range(n)]).dictionary_encode(),
        "large text": pa.array([f"t{i}" for i in range(n)], pa.large_string()), "bytes": pa.array([b"ok" if i % 2 else b"\xff" for i in range(n)]), "fixed": pa.array([b"abcd"] * n, pa.binary(4)),
        "a.b": pa.array(range(n)), "group": [{"a": 1}] * n, "map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int32())), "lossy\ufffd": pa.array(range(n)), "": pa.array(range(n)),
        "numbers": pa.array([5] * n).dictionary_encode(), "k" * 65: pa.array(range(n)), "URL": ["not this"] * n, "Captions": ["nor this"] * n, "ümlaut": ["\ufffd" if i % 2 else "ü" for i in range(n)],
    }  # fmt: skip


def metas(config: Config, lanes: int = 3) -> dict[str, Pair]:
    """Return the pairs that lie in the log, by caption."""
    pairs = [unmarshal(schema, value) for lane in produced(config, lanes) for schema, value in lane if schema == Pair.SCHEMA and b"\xa7problem" not in value]
    return {p.caption: p for p in pairs if isinstance(p, Pair)}


def test_columns_captions_and_addresses_are_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    jsons = {
        0: b'{"width": 1, "status": "success", "url": null}', 1: b'{"url": "http://json/", "punsafe": null, "exif": [1]}', 2: b'{"URL": 3}', 3: b'{"url": "http://one/", "Url": null, "url": "http://two/"}',
        4: b"no json", 5: b'{"url": "http://one/", "Url": 3}', 6: b"null", 8: b'{"url": 3, "url": null}', 9: b'{"url": "http://x/", "URL": null}',
    }  # fmt: skip
    crawl(tmp_path / "00000.tar", jsons=jsons)
    parquet.write_table(table(**kinds()), tmp_path / "00000.parquet")
    crawl(tmp_path / "00001.seg.tar", count=9)
    parquet.write_table(table(**kinds()), tmp_path / "00001.seg.parquet", row_group_size=2, data_page_version="2.0", compression="zstd", store_schema=False, use_dictionary=False)
    crawl(tmp_path / "00002.tar", count=2)
    parquet.write_table(table(0), tmp_path / "00002.parquet")
    totals = compare(new_log, tmp_path)
    assert totals.pairs > 15
    assert set(totals.problems) == {"caption_json", "caption_missing", "caption_long", "caption_empty"}
    config = new_log(3)
    with PairProducer(config) as producer:
        shards.publish(producer, tmp_path / "00000.tar", final=True)
    pair = metas(config)["caption 1"]
    assert pair.source == "http://json/" and pair.meta["unsigned"] == 2**32 - 2 and pair.meta["large"] == float(2**64 - 2) and pair.meta["nanos"] == 10**18 + 1


def test_the_status_of_the_crawl_is_heeded_alike(new_log: NewLog, tmp_path: Path) -> None:
    odd = 'failed \x01\x7f"\\\n\u00e9\U0001f600\u2028'
    jsons = {
        1: b'{"status": "failed_to_resize"}', 2: b'{"status": "success"}', 3: b'{"status": null}', 4: b'{"status": 3, "caption": "four"}', 5: b'{"Status": "not asked"}', 6: b'{"status": "a", "STATUS": null}',
        7: b'{"status": "no json', 8: b'{"status": "\xff\\ud800", "caption": "eight"}', 9: b'{"status": ["x"], "status": "success"}', 10: b'{"\\u0073tatus": "hidden"}', 11: b'{"status": "' + b"x" * 400 + b'\xc3\xa9"}',
    }  # fmt: skip
    for name, said in (("a", "success"), ("b", odd), ("c", None), ("d", "")):
        crawl(tmp_path / f"{name}.tar", jsons=jsons)
        parquet.write_table(table(12, key=[f"{i:09}" for i in range(12)], status=pa.array([said] * 12, pa.string())), tmp_path / f"{name}.parquet")
    crawl(tmp_path / "e.tar", jsons=jsons)
    totals = compare(new_log, tmp_path)
    assert totals.problems["status_failed"] > 30 and totals.pairs > 10


def test_tables_that_cannot_be_used_are_refused_alike(new_log: NewLog, tmp_path: Path) -> None:
    def written(**how: Any) -> bytes:
        out = io.BytesIO()
        parquet.write_table(how.pop("table", table()), out, **how)
        return out.getvalue()

    whole = written()
    unkeyed = pa.table({"caption": ["x"]})
    long = pa.array(["x" * (1 << 20)]).dictionary_encode()
    tables = {
        "empty": b"", "magic alone": b"PAR1", "no table": b"PAR1 or not", "cut": whole[: len(whole) // 2], "head": whole[4:], "no end": whole[:-1], "footer": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        "no keys": written(table=unkeyed), "no scalars": written(table=pa.table({"l": [[1]]})), "nothing": written(table=pa.table({})), "key is a number": written(table=table(key=pa.array(range(len(KEYS))))),
        "one key is null": written(table=table(key=pa.array([*KEYS[:-1], None]))), "one key is empty": written(table=table(key=pa.array([*KEYS[:-1], ""]))), "bytes": written(table=table(key=pa.array([b"\xff"] * len(KEYS)))),
        "key in a group": written(table=pa.table({"key": [{"key": "a"}]})), "key in a list": written(table=pa.table({"key": [["a"]]})),
        "many rows": written(table=pa.table({"key": pa.array(["k"] * ((1 << 18) + 1))})), "as many as there may be": written(table=pa.table({"key": pa.array(["k"] * (1 << 18))})),
        "long texts": written(table=pa.table({"key": ["000000001"] * 257, "caption": pa.DictionaryArray.from_arrays(pa.array([0] * 257, pa.int32()), long.dictionary)})),
        "long texts of no use": written(table=pa.table({"key": ["000000001"] * 300, "other": pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), long.dictionary)})),
        "checksum": written(write_page_checksum=True, compression="none", use_dictionary=False).replace(b"http://x/3", b"http://x/8", 1),
    }  # fmt: skip
    for name, raw in tables.items():
        crawl(tmp_path / f"{name}.tar", count=3)
        (tmp_path / f"{name}.parquet").write_bytes(raw)
    (tmp_path / "folder.parquet").mkdir()
    crawl(tmp_path / "folder.tar", count=3)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "nowhere")
    crawl(tmp_path / "link.tar", count=3)
    totals = compare(new_log, tmp_path)
    fine = {"as many as there may be", "long texts of no use", "nothing"}
    assert totals.problems["sidecar_broken"] == len(tables) - len(fine)


def test_a_damaged_table_never_stops_the_pairs(tmp_path: Path) -> None:
    out = io.BytesIO()
    parquet.write_table(table(**kinds()), out)
    whole, draw = out.getvalue(), random.Random(7)
    crawl(tmp_path / "a.tar")
    broken = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 3, 30])):
            damaged[draw.randrange(4, len(whole))] = draw.randrange(256)
        (tmp_path / "a.parquet").write_bytes(damaged)
        found = list(shards.scan(tmp_path / "a.tar"))
        for e in found:
            for pair in e.pairs() if isinstance(e, shards.Example) else ():
                marshal(pair)
        broken += isinstance(found[0], shards.Problem) and found[0].reason == "sidecar_broken"
    assert broken > 50


def test_what_a_table_says_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.parquet")
    longest, column = _table.MAX_TEXT, MAX_COLUMN_TEXT
    texts = {"caption": ["x" * longest, "x" * (longest + 1)], "exif": ["y" * column, "y" * (column + 1)]}
    parquet.write_table(pa.table({"key": ["0", "1"]} | texts), path)
    assert {key: sorted(row) for key, row in _table.read(path).items()} == {"0": ["caption", "exif"], "1": []}
    memory = 2 * _table.VALUE_BYTES + longest + column
    for name, bound, wrong in (("MAX_ROWS", 2, "more than 1 rows"), ("MAX_MEMORY", memory, f"more than {memory - 1} bytes"), ("MAX_BYTES", Path(path).stat().st_size, "are read")):
        with monkeypatch.context() as m:
            m.setattr(_table, name, bound)
            assert len(_table.read(path)) == 2
            m.setattr(_table, name, bound - 1)
            with pytest.raises(_table.TableError, match=wrong):
                _table.read(path)


def test_a_table_is_not_passed_over_where_pyarrow_is_missing(new_log: NewLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawl(tmp_path / "a.tar")
    crawl(tmp_path / "b.tar")
    parquet.write_table(table(), tmp_path / "b.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SettingError, match=r"b\.parquet lies beside its tar.*pip install pyarrow"):
        next(shards.scan(tmp_path))
    config = new_log(3)
    with PairProducer(config) as producer, pytest.raises(SettingError, match="parquet"):
        shards.publish(producer, tmp_path)
    assert not any(produced(config, 3)) and not notes(config)
    (tmp_path / "b.parquet").unlink()
    assert list(shards.scan(tmp_path))


def test_names() -> None:
    for key, want in (("a", "a"), ("a/b", "b"), ("a/b//", "b"), ("/", "/"), ("//", "/"), (".", ".")):
        assert base(key) == want
    assert beside("/no/where.tar") == ""


def varint(n: int) -> bytes:
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def page(kind: int, uncompressed: int, compressed: int, values: int, more: bytes = b"", encoding: int = 0) -> bytes:
    """The head of a page: numbers of the compact protocol, and the head of its kind."""
    numbers = b"".join(b"\x15" + varint(2 * n) for n in (kind, uncompressed, compressed))
    return numbers + more + bytes([0x2C if kind == 0 else 0x4C]) + b"\x15" + varint(2 * values) + b"\x15" + varint(2 * encoding) + b"\x00\x00"


def refusal(raw: bytes, dictionary: int = 0, whole: bool = False, at: int = 4, encodings: tuple[str, ...] = ("PLAIN",)) -> str:
    """Say why a group of one column with such pages is refused; dictionary is the length of those of its dictionary."""
    fields = {"data_page_offset": at + dictionary, "has_dictionary_page": dictionary > 0, "dictionary_page_offset": at, "total_compressed_size": len(raw)}
    of = SimpleNamespace(encodings=encodings, **fields)
    try:
        _pages.check(io.BytesIO(b"PAR1" + raw), 4 + len(raw), SimpleNamespace(num_columns=1, column=lambda i: of), whole=whole)
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
        (b"\x15\x00\x15\x01" + page(0, 1, 1, 1), 0, False, "are not where its footer says"),
    ],
)  # fmt: skip
def test_pages_are_looked_at_before_they_are_decoded(raw: bytes, dictionary: int, whole: bool, says: str) -> None:
    assert says in refusal(raw, dictionary, whole) and bool(says) == bool(refusal(raw, dictionary, whole))


def test_pages_lie_in_their_file() -> None:
    raw = page(0, 100, 10, 4) + BODY
    assert not refusal(raw) and "are not where" in refusal(raw, at=-1) and "are not where" in refusal(raw, at=5)
    lengths = ("DELTA_LENGTH_BYTE_ARRAY",)
    assert refusal(raw, encodings=lengths) == "its pages are not encoded as its footer says", "else a text of a dictionary would be there for every row"
    assert not refusal(page(0, 100, 10, 4, encoding=6) + BODY, encodings=lengths)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    """parquet-go writes lengths before texts, which Arrow cannot read as a dictionary."""
    path = str(tmp_path / "a.parquet")
    parquet.write_table(table(), path, use_dictionary=False, column_encoding=dict.fromkeys(("key", "caption", "url", "status", "exif"), encoding))
    parquet.write_table(table(), str(tmp_path / "b.parquet"))
    assert _table.read(path) == _table.read(str(tmp_path / "b.parquet"))
    parquet.write_table(table(), path, use_dictionary=False, column_encoding={"caption": "DELTA_BYTE_ARRAY"})
    with pytest.raises(_table.TableError):  # every text of it may hold all of the one before
        _table.read(path)


def test_a_table_that_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of many bytes cost the table its columns, and no memory."""
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pa.table({"key": ["0"], "note": ["x" * (12 << 20)]}), path, compression="zstd")
    assert set(_table.read(path)) == {"0"}
    monkeypatch.setattr(_pages, "MAX_BYTES", 10 << 20)
    with pytest.raises(_table.TableError, match="cannot be read as Parquet"):
        _table.read(path)

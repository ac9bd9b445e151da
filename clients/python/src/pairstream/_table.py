"""The table (.parquet) that img2dataset writes beside a tar, by the rules of internal/crawl/table and internal/crawl/shard.

A row has the scalars of the table: dates and times as the integers that the file holds, an integer that does not fit
int64 as a float. Nulls, lists, decimals, half floats and bytes that are no text are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from . import _pages
from .errors import SettingError
from .records import MAX_COLUMN_TEXT

Row = dict[str, "bool | int | float | str"]

MAX_BYTES = 1 << 30
MAX_ROWS = 1 << 18
MAX_MEMORY = 1 << 28  # of the values that are kept: VALUE_BYTES for each, and the bytes of a text
VALUE_BYTES = 16
MAX_TEXT = 1 << 20  # bytes of a text; a longer one is left out

_ROWS_AT_ONCE = 1024
_ALWAYS_KEPT = ("key", "caption", "url", "status")  # other texts have the bounds of a column
_NO_KEYS = 'the table has no column "key", as img2dataset writes it'


class TableError(Exception):
    """The table cannot be used; in the words of the Go program."""


def beside(tar: str) -> str:
    """Return the path of the table beside a tar, or "" if there is none."""
    folder, slash, name = tar.rpartition("/")
    stem = name.rpartition(".")[0] if "." in name else name
    path = f"{folder}{slash}{stem}.parquet"
    try:
        return path if stat.S_ISREG(Path(path).stat().st_mode) else ""
    except OSError:
        return ""


def need_pyarrow(table: str) -> None:
    """Raise SettingError where the package that reads Parquet is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as err:
        raise SettingError(f"{table} lies beside its tar, and nothing here reads Parquet: pip install pyarrow ({err})") from err


def read(path: str) -> dict[str, Row]:
    """Read a table, by the last element of the rows' keys. TableError says why it cannot be used, OSError that it cannot be opened."""
    rows: dict[str, Row] = {}
    count = memory = 0
    with open(path, "rb") as file:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise TableError(f"it has {size} bytes, at most {MAX_BYTES} are read")
        for row in _rows(file):
            key = row.pop("key", None)
            if not isinstance(key, str) or not key:
                raise TableError(_NO_KEYS)
            count += 1
            if count > MAX_ROWS:
                raise TableError(f"it has more than {MAX_ROWS} rows")
            memory += sum(VALUE_BYTES + (len(v.encode()) if isinstance(v, str) else 0) for v in row.values())
            if memory > MAX_MEMORY:
                raise TableError(f"its values take more than {MAX_MEMORY} bytes")
            rows[base(key)] = row
    return rows


def base(key: str) -> str:
    """Return the last element of a key, as Go's path.Base does."""
    return key.rstrip("/").rpartition("/")[2] or "/"


def _rows(file: BinaryIO) -> Iterator[Row]:
    """Yield the rows of a table. Where they cannot be read, TableError."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
        leaves = [leaf for leaf in _leaves(opened) if _is_scalar(leaf)]
        texts = _pages.dictionaries(opened.metadata, [leaf.name for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"])
        table = parquet.ParquetFile(file, read_dictionary=texts, page_checksum_verification=True)
        size = file.seek(0, os.SEEK_END)
        for i in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(i)
            if group.num_rows:  # else it has no pages
                _pages.check(file, size, group)
        if not leaves and table.metadata.num_rows:
            raise TableError(_NO_KEYS)
        for batch in table.iter_batches(_ROWS_AT_ONCE, columns=[leaf.name for leaf in leaves], use_threads=False):
            columns = [c for c in batch.columns if not pa.types.is_nested(c.type)]
            yield from _transposed([leaf.name for leaf in leaves], [_values(leaf, c) for leaf, c in zip(leaves, columns, strict=True)])
    except TableError:
        raise
    except Exception as err:  # pyarrow raises many kinds for broken bytes
        raise TableError("it cannot be read as Parquet") from err


def _leaves(table: Any) -> list[Any]:
    return [table.schema.column(i) for i in range(len(table.schema))]


def _is_scalar(leaf: Any) -> bool:
    """Tell whether a column has one value a row, of a kind that a row takes."""
    flat = leaf.path == leaf.name and leaf.max_repetition_level == 0
    return flat and leaf.physical_type not in ("FIXED_LEN_BYTE_ARRAY", "INT96") and leaf.logical_type.type != "DECIMAL"


def _transposed(names: list[str], columns: list[list[Any]]) -> Iterator[Row]:
    for values in zip(*columns, strict=True):
        yield {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _values(leaf: Any, column: Any) -> list[Any]:
    """Return the values of a column as the file holds them; None for what a row leaves out."""
    import pyarrow as pa

    column = getattr(column, "storage", column)  # of an extension type
    if leaf.physical_type == "BYTE_ARRAY":
        return _texts(leaf.name, column if pa.types.is_dictionary(column.type) else column.dictionary_encode())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if leaf.physical_type == "INT32" else pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_uint64(column.type):
        values = [float(v) if v is not None and v >= 1 << 63 else v for v in values]
    return values


def _texts(name: str, column: Any) -> list[str | None]:
    """Return the texts of a column; None for what is no UTF-8, and for what is longer than a pair may carry."""
    import pyarrow as pa

    words: dict[int | None, str | None] = {None: None}
    known = column.dictionary.cast(pa.large_binary())
    out = []
    for place in column.indices.to_pylist():
        if place not in words:
            raw = known[place].as_buffer()
            words[place] = _text(raw) if raw is not None and raw.size <= (MAX_TEXT if name in _ALWAYS_KEPT else MAX_COLUMN_TEXT) else None
        out.append(words[place])
    return out


def _text(raw: Any) -> str | None:
    try:
        return raw.to_pybytes().decode()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return None

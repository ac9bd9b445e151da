"""What is a caption, and what is wrong with one: the rules of internal/crawl/shard."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from ._table import Row
from .errors import InvalidError
from .records import MAX_CAPTION_BYTES, MAX_COLUMNS_BYTES, WHITE_SPACE, check_column, column_bytes
from .wire import MAX_COLUMNS

MAX_CAPTIONS = 256  # of one key


_MARK = b"\xef\xbb\xbf"  # of byte order, which programs on Windows put in front of a text
_NO_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"?|(-?Infinity|NaN)', re.DOTALL)


def plain_text(raw: bytes) -> bytes:
    """Return a text without a byte order mark."""
    return raw.removeprefix(_MARK)


def plain_json(raw: bytes) -> bytes:
    """Return JSON as the standard has it: without a byte order mark, and with null for NaN, Infinity and -Infinity of json.dumps."""
    return _NO_NUMBER.sub(lambda found: b"null" if found[1] else found[0], plain_text(raw))


@dataclass(frozen=True, slots=True)
class Caption:
    """A text found for an image. Bytes that are no UTF-8 are surrogate escapes."""

    text: str
    reason: str = ""  # empty: it is good
    detail: str = ""


def check_caption(raw: bytes) -> Caption:
    """Trim white space at both ends and judge what is left."""
    text = raw.decode(errors="surrogateescape").strip(WHITE_SPACE)
    size = len(text.encode(errors="surrogateescape"))
    if not text:
        return Caption("", "caption_empty", "the caption is empty")
    if size > MAX_CAPTION_BYTES:
        cut = text.encode(errors="surrogateescape")[: MAX_CAPTION_BYTES + 1].decode(errors="surrogateescape")
        return Caption(cut, "caption_long", f"the caption has {size} bytes, at most {MAX_CAPTION_BYTES} are allowed")
    if _has_escapes(text):
        return Caption(text, "caption_encoding", "the caption is not UTF-8")
    return Caption(text)


def json_captions(meta: bytes) -> tuple[list[Caption], int]:
    """Return "caption" and then "captions" of a JSON object, and how many there are. null stands for no caption."""
    try:
        fields = _members(meta, "caption", "captions")
    except ValueError:
        return [Caption("", "caption_json", "no JSON object")], 1
    out, spans = [], []
    if fields.get("caption", "null") != "null":
        spans.append(fields["caption"])
    if fields.get("captions", "null") != "null":
        try:
            spans += _elements(fields["captions"])
        except ValueError:
            out.append(Caption("", "caption_json", '"captions" is no list'))
    return out + [_json_caption(span) for span in spans[:MAX_CAPTIONS]], len(spans)


def url_of(meta: bytes | None, row: Row) -> str:
    """Return "url" of a JSON object, or of the table's row where the object has none; empty if it is no string."""
    before = str(row["url"]) if isinstance(row.get("url"), str) else ""
    try:
        return _text_of(_every(meta, "url"), before) if meta is not None else before
    except ValueError:
        return ""


def status_of(meta: bytes | None, row: Row) -> str | None:
    """Return what the crawl says of the image: "status" of a JSON object, or of the table's row; None if neither says it."""
    found = row.get("status")
    before = found if isinstance(found, str) else None
    if meta is None or b'"status"' not in meta:
        return before
    try:
        members = _every(meta, "status")
    except ValueError:
        return before
    if len({name for name, _ in members}) == 1:
        members = members[-1:]  # of one name the last counts
    said = [span for _, span in members]
    if not said or said[-1] == "null" or not all(span == "null" or _is_string(span) for span in said):
        return before
    return _string(_replace(said[-1]))


def _text_of(members: list[tuple[str, str]], before: str) -> str:
    """Return the text of members that Go takes for one name. null leaves what was there before; nothing is text but strings."""
    if len({name for name, _ in members}) == 1:
        members = members[-1:]  # of one name the last counts
    said = [span for _, span in members if span != "null"]
    if not all(map(_is_string, said)):
        return ""
    return _string(_replace(said[-1])) if said else before


def columns_of(meta: bytes | None, row: Row) -> Row:
    """Return the numbers, texts and truth values that a pair may carry, in the order of their names.

    They are those of a JSON object, and those that only the table's row has.
    """
    found = dict(row)
    try:
        spans = _members(meta) if meta is not None else {}
    except ValueError:
        spans = {}
    for name, span in spans.items():
        value = _scalar(span)
        if value is not None:
            found[name] = value
    out: Row = {}
    size = 0
    for name in sorted(found, key=lambda n: n.encode(errors="surrogateescape")):
        value = found[name]
        if _fold(name) in ("caption", "captions", "url") or "\ufffd" in f"{name}{value}":
            continue
        try:
            check_column(name, value)
        except InvalidError:
            continue
        more = size + column_bytes(name, value)
        if len(out) < MAX_COLUMNS and more <= MAX_COLUMNS_BYTES:
            out[name], size = value, more
    return out


def _scalar(span: str) -> bool | int | float | str | None:
    if span in ("true", "false"):
        return span == "true"
    if _is_string(span):
        return _string(_replace(span))
    if span == "null" or span[0] in "[{":
        return None
    if len(span) <= 20 and span.lstrip("-").isdigit() and -(1 << 63) <= int(span) < 1 << 63:
        return int(span)
    number = float(span)
    return number if math.isfinite(number) else None


def _replace(span: str) -> str:
    """Put a replacement character for every byte that is no UTF-8, as Go does."""
    return re.sub("[\udc80-\udcff]", "\ufffd", span)


def _json_caption(span: str) -> Caption:
    if not _is_string(span):
        return Caption("", "caption_json", "a caption is no string")
    if _has_escapes(span):
        return Caption(span[1:-1], "caption_encoding", "the caption is not UTF-8")
    return check_caption(_string(span).encode())


def _string(span: str) -> str:
    """Return the text of a JSON string; half of a surrogate pair becomes a replacement character, as in Go."""
    text: str = json.loads(span)
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _is_string(span: str) -> bool:
    return span.startswith('"')


def _has_escapes(text: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# Bytes that are no UTF-8 pass through as surrogate escapes, and values are taken as the text they have in the file.
# So numbers stay texts: int refuses one of some thousand digits.
_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_int=str, strict=True)
_space = re.compile(r"[ \t\n\r]*")


def _value(text: str, at: int) -> tuple[Any, str, int]:
    """Return the value that starts at a place, its text, and the place after it and the white space behind it."""
    at = _skip(text, at)
    try:
        value, end = _decoder.raw_decode(text, at)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value, text[at:end], _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _space.match(text, at)
    assert match is not None
    return match.end()


def _members(meta: bytes, *wanted: str) -> dict[str, str]:
    """Return the texts of an object's wanted members, the last one of a name. Names are compared as Go does, by folded case.

    Without names it returns all members, by their own names.
    """
    if not wanted:
        return dict(_every(meta))
    return {_fold(name): span for name, span in _every(meta, *wanted)}


def _every(meta: bytes, *wanted: str) -> list[tuple[str, str]]:
    """Return names and texts of an object's members, in their order: of those whose folded name is wanted, or of all."""
    text = meta.decode(errors="surrogateescape")
    value, span, end = _value(text, 0)
    if end != len(text):
        raise ValueError(f"something follows at character {end}")
    if value is None:
        return []
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    out: list[tuple[str, str]] = []
    at = _skip(span, 1)
    while span[at] != "}":
        _, quoted, at = _value(span, at)
        name = _string(_replace(quoted))
        _, member, at = _value(span, at + 1)  # behind the colon
        if not wanted or _fold(name) in wanted:
            out.append((name, member))
        at = _skip(span, at + 1) if span[at] == "," else at
    return out


def _fold(name: str) -> str:
    return name.lower().replace("\u017f", "s").replace("\u212a", "k")


def _elements(span: str) -> list[str]:
    if not span.startswith("["):
        raise ValueError("no list")
    out = []
    at = _skip(span, 1)
    while span[at] != "]":
        _, element, at = _value(span, at)
        out.append(element)
        at = _skip(span, at + 1) if span[at] == "," else at
    return out

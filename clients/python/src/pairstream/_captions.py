"""What is a caption, and what is wrong with one: the rules of internal/shard."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from .records import MAX_CAPTION_BYTES, WHITE_SPACE


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


def json_captions(meta: bytes) -> list[Caption]:
    """Return "caption" and then "captions" of a JSON object. null stands for no caption."""
    try:
        fields = _members(meta, "caption", "captions")
    except ValueError as err:
        return [Caption("", "caption_json", f"no JSON object: {err}")]
    out, spans = [], []
    if fields.get("caption", "null") != "null":
        spans.append(fields["caption"])
    if fields.get("captions", "null") != "null":
        try:
            spans += _elements(fields["captions"])
        except ValueError:
            out.append(Caption("", "caption_json", '"captions" is no list'))
    return out + [_json_caption(span) for span in spans]


def json_url(meta: bytes) -> str:
    """Return "url" of a JSON object, empty if it has none or it is no string."""
    try:
        span = _members(meta, "url").get("url", "")
        return _string(re.sub("[\udc80-\udcff]", "\ufffd", span)) if span.startswith('"') else ""
    except ValueError:
        return ""


def _json_caption(span: str) -> Caption:
    if not span.startswith('"'):
        return Caption("", "caption_json", "a caption is no string")
    if _has_escapes(span):
        return Caption(span[1:-1], "caption_encoding", "the caption is not UTF-8")
    return check_caption(_string(span).encode())


def _string(span: str) -> str:
    """Return the text of a JSON string; half of a surrogate pair becomes a replacement character, as in Go."""
    text: str = json.loads(span)
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _has_escapes(text: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# Bytes that are no UTF-8 pass through as surrogate escapes, and values are taken as the text they have in the file.
_decoder = json.JSONDecoder(parse_constant=_no_constant, strict=True)
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
    """Return the texts of an object's wanted members. Names are compared as Go does, by folded case; the last one counts."""
    text = meta.decode(errors="surrogateescape")
    value, span, end = _value(text, 0)
    if end != len(text):
        raise ValueError(f"something follows at character {end}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    out: dict[str, str] = {}
    at = _skip(span, 1)
    while span[at] != "}":
        name, _, at = _value(span, at)
        _, member, at = _value(span, at + 1)  # behind the colon
        folded = name.lower().replace("\u017f", "s").replace("\u212a", "k")
        if folded in wanted:
            out[folded] = member
        at = _skip(span, at + 1) if span[at] == "," else at
    return out


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

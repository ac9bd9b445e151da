"""What a WebDataset tar gives: examples, and a problem for everything else that was meant as one. The rules are internal/crawl/shard's."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ._captions import MAX_CAPTIONS, Caption, check_caption, columns_of, json_captions, plain_json, plain_text, status_of, url_of
from ._table import Row, base
from ._tar import Damage, Entry, entries
from .ids import image_id, pair_id
from .records import MAX_IMAGE_BYTES, MAX_URI_BYTES, SHAPES, ImageRef, Pair
from .wire import Encoder

MAX_META_BYTES = 1 << 20  # of key.txt and key.json
MAX_PROBLEMS = 10_000  # records of one tar

_MAX_ENTRY_BYTES = 256  # of an entry's name in a problem
_MAX_DETAIL_BYTES = 512

_PICTURES = frozenset({"jpg", "jpeg", "png", "webp"})
_FOREIGN = frozenset(["gif", "bmp", "tif", "tiff", "avif", "heic", "heif", "jp2", "jxl", "svg", "ico", "jfif", "jpe", "jpg_large", "jpeg_large"])
_NO_ID = bytes(16)
_STATUS = "status_failed"
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}


@dataclass(frozen=True, slots=True)
class Example:
    """One image with its captions."""

    key: str
    image: ImageRef
    image_id: bytes
    encoded: bytes
    captions: list[str]  # distinct and valid, at least one: key.txt's first, then those of key.json
    meta: bytes | None  # key.json, with null for NaN and infinities
    row: Row = field(default_factory=dict)  # of the key in the table beside the tar

    def pairs(self) -> list[Pair]:
        """Return a pair for every caption, in their order."""
        url, meta = url_of(self.meta, self.row), columns_of(self.meta, self.row)
        if url and len(url.encode()) <= MAX_URI_BYTES:
            source = url
        else:
            source = _valid(self.image.uri.rpartition("/")[2] + "#" + self.key, MAX_URI_BYTES)
        return [
            Pair(id=pair_id(self.image_id, text), image_id=self.image_id, image=self.image, caption=text, source=source, meta=meta)
            for text in self.captions
        ]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing in a tar that was meant as a pair, or hides some, and cannot be one."""

    uri: str
    offset: int  # of the entry's header
    entry: str  # its name; empty when there is no sound header
    reason: str
    detail: str
    image: ImageRef | None = None
    image_id: bytes = _NO_ID  # of the bytes that are there
    caption: str = ""  # as found, with surrogate escapes for bytes that are no UTF-8

    def about(self) -> bytes:
        """Return the id of the image that the problem is about, or one of its own."""
        if self.image_id != _NO_ID:
            return self.image_id
        return hashlib.sha256(_raw(self.uri) + b"\0" + struct.pack("<Q", self.offset)).digest()[:16]

    def id(self) -> bytes:
        """Return the pair id under which the problem's record travels."""
        return pair_id(self.about(), _raw(self.caption))

    def record(self) -> bytes:
        """Encode the problem as a value for the topic "pairs"; its reader must refuse it."""
        source = f"{self.uri}#{self.offset}" + (f":{_valid(self.entry, _MAX_ENTRY_BYTES)}" if self.entry else "")
        pair = Pair(id=self.id(), image_id=self.about(), image=self.image, caption=self.caption, source=source)
        return Encoder().encode(pair, SHAPES[Pair.SCHEMA], {"problem": f"{self.reason}: {_valid(self.detail, _MAX_DETAIL_BYTES)}"})


@dataclass(slots=True)
class _Sample:
    """What was seen so far of one key."""

    key: str = ""
    first: Entry | None = None
    image: Entry | None = None
    encoded: bytes = b""
    text: Entry | None = None
    meta: Entry | None = None
    captions: list[Caption] = field(default_factory=list)
    json_captions: list[Caption] = field(default_factory=list)
    found: int = 0  # captions in the json, before any were left out
    meta_bytes: bytes | None = None
    lost_captions: bool = False


class Scanner:
    """Walks one tar and puts the entries of a key together."""

    def __init__(self, file: BinaryIO, uri: str, rows: dict[str, Row]) -> None:
        self.file, self.uri, self.rows = file, uri, rows
        self.cur = _Sample()
        self.end = 0  # where the next header lies
        self.examples, self.packed = 0, False
        self.ignored: dict[str, tuple[int, str]] = {}  # files that are no part of a pair: how many and the first, by what to do about them

    def run(self) -> Iterator[Example | Problem]:
        problems = 0
        for item in self._items():
            problems += isinstance(item, Problem)
            self.examples += isinstance(item, Example)
            if isinstance(item, Example) or problems <= MAX_PROBLEMS:
                yield item
        if problems > MAX_PROBLEMS:
            detail = f"{problems - MAX_PROBLEMS} more problems in this tar, after the first {MAX_PROBLEMS}"
            yield Problem(self.uri, self.end, "", "problems_cut", detail)

    def _items(self) -> Iterator[Example | Problem]:
        for e in entries(self.file):
            if isinstance(e, Entry):
                self.end = e.end
                yield from self._entry(e)
                continue
            yield from self._flush()  # behind an end marker a key is another one, although it may have the same name
            self.end = max(e.then, self.end)
            if isinstance(e, Damage):
                self.packed = self.packed or e.detail.startswith("the tar is compressed")
                yield Problem(self.uri, e.offset, "", e.reason, e.detail)
        yield from self._flush()

    def _entry(self, e: Entry) -> Iterator[Example | Problem]:
        if e.typeflag in (b"5", b"g"):
            return
        refusal = _refuse(e)
        if refusal:
            yield Problem(self.uri, e.header, e.name, *refusal)
            return
        key, ext = split_name(e.name)
        if ext not in _PICTURES and ext not in ("txt", "json"):
            why = _why_ignored(key, ext)
            count, first = self.ignored.get(why, (0, e.name))
            self.ignored[why] = (count + 1, first)
            if e.present < e.size:
                yield Problem(self.uri, e.header, e.name, "tar_cut", _cut(e))
            return
        if key != self.cur.key:
            yield from self._flush()
            self.cur = _Sample(key=key, first=e)
        if ext in _PICTURES:
            yield from self._image(e)
        else:
            yield from self._text(e, ext)

    def _image(self, e: Entry) -> Iterator[Problem]:
        if self.cur.image is not None:
            yield self._complain(e, "entry_duplicate", "a second image under the same key")
            return
        self.cur.image = e
        if e.size <= MAX_IMAGE_BYTES:
            self.cur.encoded = self._contents(e)

    def _text(self, e: Entry, ext: str) -> Iterator[Problem]:
        cur = self.cur
        earlier, what = (cur.text, "text") if ext == "txt" else (cur.meta, "json")
        refusal = _unreadable(e, earlier, what)
        if refusal:
            cur.lost_captions = True
            yield self._complain(e, *refusal)
        elif ext == "txt":
            cur.text, cur.captions = e, [check_caption(plain_text(self._contents(e)))]
        else:
            cur.meta, cur.meta_bytes = e, plain_json(self._contents(e))
            cur.json_captions, cur.found = json_captions(cur.meta_bytes)

    def _contents(self, e: Entry) -> bytes:
        self.file.seek(e.data)
        return self.file.read(e.present)

    def _complain(self, e: Entry, reason: str, detail: str) -> Problem:
        ref, image = self._ref(self.cur.image) if self.cur.image else (None, _NO_ID)
        return Problem(self.uri, e.header, e.name, reason, detail, ref, image)

    def _ref(self, e: Entry) -> tuple[ImageRef, bytes]:
        """Return the reference to the key's image and the hash of its bytes; one that is too large has no hash."""
        ref = ImageRef(uri=self.uri, offset=e.data, size=e.size)
        return ref, _NO_ID if e.size > MAX_IMAGE_BYTES else image_id(self.cur.encoded)

    def _flush(self) -> Iterator[Example | Problem]:
        """Hand out what the key came to."""
        cur = self.cur
        if cur.key:
            yield from self._outcome(cur)
        self.cur = _Sample()

    def _outcome(self, cur: _Sample) -> Iterator[Example | Problem]:
        distinct: dict[tuple[str, str], Caption] = {}
        for c in cur.captions + cur.json_captions:
            distinct.setdefault((c.reason, c.text), c)
        captions, row = list(distinct.values()), self.rows.get(base(cur.key), {})
        if not captions and not cur.lost_captions and isinstance(row.get("caption"), str):
            captions = [check_caption(str(row["caption"]).encode())]
        if cur.found > MAX_CAPTIONS:
            yield self._reject(cur, Caption("", "captions_cut", f"{cur.found} captions under one key, only the first {MAX_CAPTIONS} are taken"))
        fault = _image_fault(cur.image) or _status_fault(cur.meta_bytes, row)
        good = []
        for c in captions:
            if not c.reason and fault:
                c = Caption(c.text, *fault)
            if c.reason:
                yield self._reject(cur, c)
            else:
                good.append(c.text)
        if not captions:
            if cur.image is not None and (fault or not cur.lost_captions):
                yield self._reject(cur, Caption("", *(fault or ("caption_missing", "no caption belongs to the image"))))
            return
        if good:
            assert cur.image is not None
            ref, image = self._ref(cur.image)
            yield Example(cur.key, ref, image, cur.encoded, good, cur.meta_bytes, row)

    def _reject(self, cur: _Sample, c: Caption) -> Problem:
        at = cur.image or cur.first
        assert at is not None
        ref, image = self._ref(cur.image) if cur.image else (None, _NO_ID)
        if c.reason == _STATUS:
            ref = None  # image and caption are sound: with both, a reader would take the record for a pair
        return Problem(self.uri, at.header, at.name, c.reason, c.detail, ref, image, c.text)


def _why_ignored(key: str, ext: str) -> str:
    """Say why a file is no part of a pair, in Go's words."""
    last = ext.rpartition(".")[2]
    if key and last in _FOREIGN:
        return "images were ignored, as their format is not read: convert them to JPEG, PNG or WebP, and name .jfif and .jpe .jpg"
    if key and (last in _PICTURES or last in ("txt", "json")):
        return "files were ignored for the dots in their names: a key ends at the first dot, so want key.jpg beside key.txt"
    return "other files were ignored"


def _unreadable(e: Entry, earlier: Entry | None, what: str) -> tuple[str, str] | None:
    if earlier is not None:
        return "entry_duplicate", f"a second {what} under the same key"
    if e.present < e.size:
        return "tar_cut", _cut(e)
    if e.size > MAX_META_BYTES:
        return "entry_oversize", f"a {what} of {e.size} bytes, at most {MAX_META_BYTES} are allowed"
    return None


def _image_fault(e: Entry | None) -> tuple[str, str] | None:
    if e is None:
        return "image_missing", "no image belongs to the caption"
    if e.size == 0:
        return "image_empty", "the image has no bytes"
    if e.size > MAX_IMAGE_BYTES:
        return "entry_oversize", f"an image of {e.size} bytes, at most {MAX_IMAGE_BYTES} are allowed"
    if e.present < e.size:
        return "tar_cut", _cut(e)
    return None


def _status_fault(meta: bytes | None, row: Row) -> tuple[str, str] | None:
    """Say why the crawl itself takes an image for none."""
    status = status_of(meta, row)
    if status is None or status == "success":
        return None
    return _STATUS, f"the crawl says {_plain(_valid(status, _MAX_ENTRY_BYTES))} of the image"


def _plain(text: str) -> str:
    """Quote a text in ASCII, as Go does."""
    out = ""
    for c in text:
        if c in _ESCAPES or " " <= c <= "~":
            out += _ESCAPES.get(c, c)
        else:
            out += f"\\x{ord(c):02x}" if c <= "\x7f" else f"\\u{ord(c):04x}" if c <= "\uffff" else f"\\U{ord(c):08x}"
    return f'"{out}"'


def _cut(e: Entry) -> str:
    return f"the tar ends after {e.present} of the entry's {e.size} bytes"


def _refuse(e: Entry) -> tuple[str, str] | None:
    """Say why an entry must not be touched, whatever it is called."""
    if e.sparse:
        return "entry_type", "sparse files have no contiguous bytes to refer to"
    if e.typeflag != b"0":
        return "entry_type", f"entry of type {_quoted(e.typeflag)}, only regular files are read"
    name = e.name.replace("\\", "/")
    if name.startswith("/"):
        return "entry_name", "the name is absolute"
    if ".." in name.split("/"):
        return "entry_name", 'the name has ".."'
    return None


def _quoted(flag: bytes) -> str:
    """Return a byte as Go quotes it."""
    c = chr(flag[0])
    return f"'{c}'" if c.isprintable() and c not in "'\\" else f"'\\x{flag[0]:02x}'" if flag[0] else r"'\x00'"


def split_name(name: str) -> tuple[str, str]:
    """Part an entry's name at the first dot of its last element; names without either part have no key."""
    name = name.removeprefix("./")
    folder, slash, base = name.rpartition("/")
    stem, dot, ext = base.partition(".")
    if not dot or not stem:
        return "", ""
    return folder + slash + stem, ext.lower()


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _valid(text: str, most: int) -> str:
    """Return the UTF-8 among the first bytes of a text."""
    return _raw(text)[:most].decode(errors="ignore")

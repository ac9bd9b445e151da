"""A dataclass for every record on the topics, with numpy views of its columns.

`unmarshal` checks, decodes and validates a value; `marshal` validates and encodes a record into the bytes that the Go
programs write. Columns are read-only views of the value: whoever keeps a record keeps its value in memory. Copy what
shall be kept alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidError, RecordError, UnknownSchemaError
from .ids import image_id, pair_id
from .wire import MAX_BATCH, MAX_COLUMNS, MAX_MEASURES, MAX_NOUNS, Encoder, Kind, Shape, decode, shape_of

MAX_CAPTION_BYTES = 8 << 10
MAX_IMAGE_BYTES = 20 << 20
MAX_URI_BYTES = 2 << 10
MAX_NAME_BYTES = 256
MAX_DIM = 4096
MAX_COLUMN_NAME = 64
MAX_COLUMN_TEXT = 1 << 10
MAX_COLUMNS_BYTES = 8 << 10
CHUNK_MEMBERS = 1024
MAX_ASKED = 1000
MAX_NEAR = 64

UNIT_TOLERANCE = 1e-3
SIMILARITY_TOLERANCE = 1e-3

Int32 = Annotated[int, Shape(Kind.INT32)]
Int64 = Annotated[int, Shape(Kind.INT64)]
Float32 = Annotated[float, Shape(Kind.FLOAT32)]
Float64 = Annotated[float, Shape(Kind.FLOAT64)]
Id = Annotated[bytes, Shape(Kind.BYTES, 16)]
Columns = Annotated[dict[str, bool | int | float | str], Shape(Kind.MAP, MAX_COLUMNS, elem=Shape(Kind.SCALAR))]
Digest = Annotated[bytes, Shape(Kind.BYTES)]
Blob = Annotated[bytes | memoryview, Shape(Kind.BYTES, copy=False)]
Int32s = Annotated[NDArray[np.int32], Shape(Kind.COLUMN, dtype=np.dtype("<i4"))]
Floats32 = Annotated[NDArray[np.float32], Shape(Kind.COLUMN, dtype=np.dtype("<f4"))]
Float16s = Annotated[NDArray[np.float16], Shape(Kind.COLUMN, dtype=np.dtype("<f2"))]
Ids = Annotated[NDArray[np.uint8], Shape(Kind.COLUMN, dtype=np.dtype("u1"))]

_NO_ID = bytes(16)


def _optional(default: Any) -> Any:
    """A field that is left out of the record when it is empty."""
    if callable(default):
        return field(default_factory=default, metadata={"optional": True})
    return field(default=default, metadata={"optional": True})


def _ids() -> NDArray[np.uint8]:
    return np.empty(0, np.uint8)


def _int32s() -> NDArray[np.int32]:
    return np.empty(0, dtype="<i4")


def _floats32() -> NDArray[np.float32]:
    return np.empty(0, dtype="<f4")


class Record:
    """What all records have: their schema, and a check of their values."""

    __slots__ = ()
    SCHEMA: ClassVar[str]

    def validate(self) -> None:
        """Raise InvalidError for the first value that is wrong."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupID:
    """The name of a group: its lane and its number in that lane."""

    lane: Int32
    seq: Int64

    def __str__(self) -> str:
        return f"{self.lane}/{self.seq}"

    def validate(self) -> None:
        _want(self.lane >= 0 and self.seq >= 0, f"group {self} has a negative number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """Where the encoded bytes of one image are: a range of an object.

    In mini-batches it may be that of a smaller copy. Then copy is the hash of the copy's bytes, as image_id makes it.
    """

    uri: str
    offset: Int64 = 0
    size: Int64
    copy: Id = _optional(b"")

    def bytes_id(self, image: bytes) -> bytes:
        """Return the hash that the bytes must have, which show the image with this id."""
        return self.copy if any(self.copy) else image

    def validate_original(self) -> None:
        """Check the reference of a pair of the crawl, of which there is no copy yet."""
        _want(not any(self.copy), f"image of a pair is a copy, {self.copy.hex()}, want the image itself")
        self.validate()

    def validate(self) -> None:
        _name("image uri", self.uri, MAX_URI_BYTES)
        _want(0 < self.size <= MAX_IMAGE_BYTES, f"image size {self.size}, want 1..{MAX_IMAGE_BYTES} bytes")
        _want(0 <= self.offset <= (1 << 63) - 1 - self.size, f"image offset {self.offset} is out of range")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair(Record):
    """One crawled image and one of its captions. Exactly one of image and inline is set."""

    SCHEMA: ClassVar[str] = "pairstream.pair/1"

    id: Id
    image_id: Id
    image: ImageRef | None = _optional(None)
    inline: Blob = _optional(b"")
    caption: str
    source: str = _optional("")
    crawl_time: Int64 = _optional(0)
    meta: Columns = _optional(dict)

    def validate(self) -> None:
        _caption("caption", self.caption)
        _want((self.image is None) != (len(self.inline) == 0), "a pair has either an image reference or inline bytes")
        if self.image is not None:
            self.image.validate_original()
        else:
            _want(len(self.inline) <= MAX_IMAGE_BYTES, f"inline image of {len(self.inline)} bytes, want at most {MAX_IMAGE_BYTES}")
            _want(image_id(self.inline) == self.image_id, f"image id {self.image_id.hex()} does not match the inline image")
        _text("source", self.source, MAX_URI_BYTES)
        _columns(self.meta)
        _pair_id(self.id, self.image_id, self.caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal(Record):
    """Closes the open group of its lane; final: the crawl ends here."""

    SCHEMA: ClassVar[str] = "pairstream.seal/1"

    final: bool = False
    note: str = _optional("")
    id: str = _optional("")
    repeats: Int64 = _optional(0)

    def validate(self) -> None:
        _want(self.repeats >= 0, f"{self.repeats} repeats")
        _text("id", self.id, MAX_NAME_BYTES)
        _text("note", self.note, MAX_CAPTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding(Record):
    """A pair with the unit vectors of its image and of its caption."""

    SCHEMA: ClassVar[str] = "pairstream.embedding/1"

    id: Id
    image_id: Id
    image: ImageRef
    caption: str
    v: Float16s
    t: Float16s
    similarity: Float32
    model: str

    def validate(self) -> None:
        _caption("caption", self.caption)
        self.image.validate_original()
        _pair_id(self.id, self.image_id, self.caption)
        _want(len(self.v) <= MAX_DIM, f"vectors of {len(self.v)} values, want at most {MAX_DIM}")
        _unit_rows("v", self.v, 1, len(self.v))
        _unit_rows("t", self.t, 1, len(self.v))
        _similarity("similarity", self.similarity)
        dot = float(self.v.astype(np.float64) @ self.t.astype(np.float64))
        _want(abs(dot - self.similarity) <= SIMILARITY_TOLERANCE, f"similarity is {self.similarity:g}, but v . t is {dot:g}")
        _name("model", self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Record):
    """Stands in the place of an embedding for a pair whose image cannot be had, or that the crawl does not want."""

    SCHEMA: ClassVar[str] = "pairstream.refusal/1"

    id: Id
    image_id: Id
    reason: str
    rule: str = _optional("")
    detail: str = _optional("")

    def validate(self) -> None:
        _want(any(self.id), "pair id is missing")
        _want(any(self.image_id), "image id is missing")
        _name("reason", self.reason)
        _text("rule", self.rule, MAX_NAME_BYTES)
        _text("detail", self.detail, MAX_NAME_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positive:
    """An image that shows the same as the anchor's (GPN-S eq. 9)."""

    image_id: Id
    image: ImageRef

    def validate(self) -> None:
        _want(self.image_id != _NO_ID, "image id is missing")
        self.image.validate()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborChunk(Record):
    """What the indexer found for consecutive members of a group, as columns."""

    SCHEMA: ClassVar[str] = "pairstream.neighbor_chunk/1"

    group: GroupID
    start: Int32
    ids: Ids
    k: Int32
    v2t: Int32s = _optional(_int32s)
    k1: Int32
    se: Int32s = _optional(_int32s)
    cluster: Int32s
    obj_end: Int32s
    obj: Int32s = _optional(_int32s)
    near: Ids = _optional(_ids)
    near_to: Int32s = _optional(_int32s)
    near_cosine: Floats32 = _optional(_floats32)
    out_end: Int32s = _optional(_int32s)
    out_images: Ids = _optional(_ids)
    out_place: Int32s = _optional(_int32s)
    out_uris: Blob = _optional(b"")
    out_near: Ids = _optional(_ids)
    out_near_to: Ids = _optional(_ids)
    out_near_cosine: Floats32 = _optional(_floats32)
    copy_uri: str = _optional("")
    copy_ids: Ids = _optional(_ids)
    copy_block: Int32s = _optional(_int32s)
    copy_size: Int32s = _optional(_int32s)

    def copy(self, i: int) -> ImageRef | None:
        """Return the reference to the copy of the image of member i, if it has one."""
        if not self.copy_uri or not self.copy_size[i]:
            return None
        block, size = int(self.copy_block[i]), int(self.copy_size[i])
        return ImageRef(uri=self.copy_uri, offset=512 * block, size=size, copy=self.copy_ids[16 * i : 16 * i + 16].tobytes())

    def validate(self) -> None:
        self.group.validate()
        n = len(self.ids) // 16
        _want(len(self.ids) % 16 == 0 and 0 < n <= CHUNK_MEMBERS, f"{len(self.ids)} bytes of ids, want 16 for each of 1..{CHUNK_MEMBERS} members")
        _want(self.start >= 0 and self.start % CHUNK_MEMBERS == 0 and self.start + n < 1 << 31, f"start {self.start}, want a multiple of {CHUNK_MEMBERS}")
        _want(len(self.cluster) == n, f"cluster has {len(self.cluster)} values, want {n}")
        _want(bool(self.ids.reshape(n, 16).any(axis=1).all()), "a pair id is missing")
        _want(bool((self.cluster >= 0).all()), "a cluster is negative")
        _neighbors("v2t", self.v2t, n, self.k)
        _neighbors("se", self.se, n, self.k1)
        self._validate_near()
        self._validate_outside(n)
        self._validate_copies(n if self.copy_uri else 0)
        self._validate_objects(n)

    def _validate_near(self) -> None:
        n = len(self.near) // 16
        lengths_fit = len(self.near) % 16 == 0 and n <= MAX_NEAR * CHUNK_MEMBERS and len(self.near_to) == len(self.near_cosine) == n
        _want(lengths_fit, f"{len(self.near)} bytes of near-duplicates, with {len(self.near_to)} positions and {len(self.near_cosine)} cosines")
        _want(bool(self.near.reshape(n, 16).any(axis=1).all()), "a near-duplicate's pair id is missing")
        _want(bool((self.near_to >= 0).all()), "a near-duplicate is close to a negative position")
        _want(bool((abs(self.near_cosine) <= 1).all()), "a near-duplicate's cosine is outside -1..1")

    def outside(self) -> list[list[Positive]]:
        """Return the equivalent images of other groups, for each member best first; an empty list: there are none."""
        uris = bytes(self.out_uris).decode().split("\n")
        place = self.out_place.reshape(-1, 4).astype(np.int64)
        images = [
            Positive(
                image_id=self.out_images[16 * i : 16 * i + 16].tobytes(),
                image=ImageRef(uri=uris[int(at)], offset=int(high) << 32 | int(low) & 0xFFFFFFFF, size=int(size)),
            )
            for i, (at, low, high, size) in enumerate(place)
        ]
        return [images[int(self.out_end[i - 1]) if i else 0 : int(end)] for i, end in enumerate(self.out_end)]

    def _validate_outside(self, n: int) -> None:
        near = len(self.out_near_cosine)
        lengths_fit = len(self.out_near) == len(self.out_near_to) == 16 * near and near <= MAX_NEAR * CHUNK_MEMBERS
        _want(lengths_fit, f"{len(self.out_near)} bytes of near-duplicates of other groups, with {len(self.out_near_to)} bytes of images and {near} cosines")
        for ids in (self.out_near, self.out_near_to):
            _want(bool(ids.reshape(near, 16).any(axis=1).all()), "an id of a near-duplicate of other groups is missing")
        _want(bool((abs(self.out_near_cosine) <= 1).all()), "a near-duplicate's cosine is outside -1..1")
        n_out = len(self.out_images) // 16
        _want(len(self.out_images) == 16 * n_out and len(self.out_place) == 4 * n_out, f"{len(self.out_images)} bytes of ids of images of other groups, with {len(self.out_place)} values of places")
        _want(len(self.out_end) == n or len(self.out_end) == n_out == 0, f"out_end has {len(self.out_end)} values for {n_out} images, want {n}")
        start = 0
        for i, end in enumerate(self.out_end):
            _want(start <= end <= start + self.k1, f"member {i} has images {start} to {end} of other groups, and k1 is {self.k1}")
            start = int(end)
        _want(start == n_out, f"{n_out} images of other groups, out_end says {start}")
        uris = bytes(self.out_uris)
        objects = uris.count(b"\n")
        _want(not uris or uris.endswith(b"\n"), "out_uris does not end with a line feed")
        numbers = self.out_place.reshape(n_out, 4)[:, 0]
        _want(bool(((numbers >= 0) & (numbers < objects)).all()), f"an image of other groups is in none of {objects} objects")
        try:
            outside = self.outside()
        except UnicodeDecodeError:
            raise InvalidError("out_uris is not UTF-8") from None
        for image in (image for some in outside for image in some):
            image.validate()

    def _validate_copies(self, n: int) -> None:
        lengths_fit = len(self.copy_ids) == 16 * n and len(self.copy_block) == len(self.copy_size) == n
        _want(lengths_fit, f"{len(self.copy_ids)} bytes of ids of copies, {len(self.copy_block)} places and {len(self.copy_size)} sizes, want those of {n} members")
        for i in range(n):
            ref, named = self.copy(i), bool(self.copy_ids[16 * i : 16 * i + 16].any())
            if ref is None:
                _want(self.copy_block[i] == 0 and not named, f"copy of member {i} has no bytes")
                continue
            _want(named, f"id of the copy of member {i} is missing")
            ref.validate()

    def _validate_objects(self, n: int) -> None:
        _want(len(self.obj_end) == n, f"obj_end has {len(self.obj_end)} values, want {n}")
        start = 0
        for i, end in enumerate(self.obj_end.tolist()):
            _want(start <= end <= len(self.obj), f"obj_end goes from {start} to {end} of {len(self.obj)}")
            nouns = self.obj[start:end]
            _want(bool((nouns >= 0).all()) and bool((np.diff(nouns) > 0).all()), f"obj of member {i} is not ascending")
            start = end
        _want(start == len(self.obj), f"obj has {len(self.obj)} values, obj_end says {start}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group(Record):
    """The manifest that follows a group's last chunk."""

    SCHEMA: ClassVar[str] = "pairstream.group/1"

    group: GroupID
    first_seq: Int64
    end_seq: Int64
    count: Int32
    duplicates: Int64
    repeats: Int64 = _optional(0)
    same_image: Int64 = _optional(0)
    near: Int64 = _optional(0)
    left_out: Int64 = _optional(0)
    chunks: Int32
    dim: Int32
    clusters: Int32
    min_similarity: Float32
    max_similarity: Float32
    nouns: list[str] = _optional(list)
    model: str
    closed: str
    final: bool = _optional(False)
    k: Int32
    k1: Int32
    k2: Int32
    p: Float64
    min_count: Int32
    modality: str
    digest: Digest
    scope: str = _optional("")
    asked: list[GroupID] = _optional(list)

    def validate(self) -> None:
        self.group.validate()
        _want(self.scope in ("", "lane", "crawl"), f"scope is {self.scope!r}")
        _want(len(self.asked) <= (MAX_ASKED if self.scope else 0), f"{len(self.asked)} groups were asked, with scope {self.scope!r}")
        for asked in self.asked:
            asked.validate()
        _want(self.count > 0 and self.chunks == -(-self.count // CHUNK_MEMBERS), f"group of {self.count} pairs in {self.chunks} chunks")
        _want(0 <= self.first_seq <= self.end_seq, f"places from {self.first_seq} to {self.end_seq}")
        places = self.end_seq - self.first_seq
        _want(0 <= self.same_image <= places, f"{self.same_image} repeated images in {places} places")
        _want(0 <= self.repeats <= places, f"{self.repeats} repeats in {places} places")
        _want(0 <= self.left_out <= self.near <= min(places, self.count + self.left_out), f"{self.near} near-duplicates, {self.left_out} of them left out, of {self.count} pairs")
        _want(0 <= self.duplicates <= places - self.repeats - self.left_out - self.count, f"{self.count} pairs and {self.duplicates} duplicates in {places} places")
        _want(0 < self.dim <= MAX_DIM, f"dim {self.dim}, want 1..{MAX_DIM}")
        _want(0 < self.clusters <= self.count, f"{self.clusters} clusters of {self.count} pairs")
        _want(min(self.k, self.k1, self.k2, self.min_count) >= 0, "k, k1, k2, min_count: want none negative")
        _want(not self.final or self.closed == "seal", f"the lane's last group was closed by {self.closed!r}, want 'seal'")
        _want(0 <= self.p <= 1, f"p is {self.p:g}, want 0..1")
        _want(len(self.digest) == 32, f"digest of {len(self.digest)} bytes, want 32")
        _similarity("min_similarity", self.min_similarity)
        _similarity("max_similarity", self.max_similarity)
        _want(self.min_similarity <= self.max_similarity, f"similarities from {self.min_similarity:g} to {self.max_similarity:g}")
        _want(len(self.nouns) <= MAX_NOUNS, f"{len(self.nouns)} nouns, want at most {MAX_NOUNS}")
        for i, noun in enumerate(self.nouns):
            _name("noun", noun)
            _want(i == 0 or self.nouns[i - 1].encode() < noun.encode(), f"noun {noun!r} is not after the one before")
        _one_of("closed", self.closed, "count", "seal", "model")
        _one_of("modality", self.modality, "image", "text")
        _name("model", self.model)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """One pair of a mini-batch."""

    id: Id
    image_id: Id
    image: ImageRef
    text: str
    replaced: bool = False
    position: Int32
    positive: Positive | None = _optional(None)
    partners: Int32s = _optional(_int32s)

    def validate(self) -> None:
        _caption("text", self.text)
        self.image.validate()
        _want(self.position >= 0, f"position {self.position} is negative")
        if self.replaced:
            _want(self.id != _NO_ID, "pair id is missing")
        else:
            _pair_id(self.id, self.image_id, self.text)
        _want(self.image_id != _NO_ID, "image id is missing")
        if self.positive is not None:
            self.positive.validate()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch(Record):
    """One mini-batch of one epoch of a group, in training order."""

    SCHEMA: ClassVar[str] = "pairstream.batch/1"

    group: GroupID
    epoch: Int32
    sequence: Int32
    batches: Int32
    strategy: str
    samples: list[Sample]
    m: Int32
    i2t: Int32s = _optional(_int32s)
    t2i: Int32s = _optional(_int32s)
    again: bool = _optional(False)
    left: Int64 = _optional(0)

    def validate(self) -> None:
        self.group.validate()
        n = len(self.samples)
        _want(0 < n <= MAX_BATCH, f"batch of {n} samples, want 1..{MAX_BATCH}")
        _want(self.epoch >= 0 and 0 <= self.sequence < self.batches, f"epoch {self.epoch}, batch {self.sequence} of {self.batches}")
        _want(self.left >= 0, f"{self.left} batches are left")
        _want(self.m >= 0 and len(self.i2t) == len(self.t2i) == n * self.m, f"{len(self.i2t)} and {len(self.t2i)} candidates, want {n} x {self.m}")
        _one_of("strategy", self.strategy, "random", "grit", "gns")
        for i, sample in enumerate(self.samples):
            try:
                sample.validate()
            except InvalidError as err:
                raise InvalidError(f"sample {i}: {err}") from None
        self._validate_links()

    def _validate_links(self) -> None:
        n, m = len(self.samples), self.m
        for i, sample in enumerate(self.samples):
            partners = sample.partners.tolist()
            for p in partners:
                _want(0 <= p < n and p != i, f"sample {i} of {n} has partner {p}")
                _want(self.samples[p].image_id == sample.image_id, f"sample {i} has partner {p}, which shows another image")
            _want(len(set(partners)) == len(partners), f"sample {i} has a partner twice")
            for name, column in (("i2t", self.i2t), ("t2i", self.t2i)):
                _candidates(name, column[i * m : (i + 1) * m].tolist(), i, n, partners)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Takes one image of a batch out of training: it could be read when the pair was embedded, and cannot be now."""

    sample: Int32  # its place in the batch
    positive: bool = _optional(False)  # only the image of its positive: the sample's own image stands in for that
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """An estimate of how much is true of the connections among the hardest candidates, at their base rate."""

    above: Float64  # threshold of the probability
    value: Float64
    low: Float64  # of its interval
    high: Float64
    base: Float64  # share of the candidates that are true
    confirmed: Float64  # share of the candidates that are connections
    candidates: Int32
    negatives: Int32  # hard negatives that Con-D was asked about
    judged: Int32 = _optional(0)  # connections that people have judged
    right: Int32 = _optional(0)  # of these: those that they call a match

    def validate(self) -> None:
        for name in ("above", "value", "low", "high", "base", "confirmed"):
            _want(0 <= getattr(self, name) <= 1, f"precision with {name} {getattr(self, name):g}, want 0..1")
        _want(self.low <= self.value <= self.high, f"precision of {self.value:g} is outside {self.low:g}..{self.high:g}")
        _want(min(self.candidates, self.negatives) >= 0, f"precision of {self.candidates} candidates and {self.negatives} hard negatives")
        _want(0 <= self.right <= self.judged, f"precision of {self.right} matches among {self.judged} judged connections")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Confirmed:
    """The candidates of a batch that Con-D confirms, as columns: what people judge while connections are off."""

    image: Int32s  # samples whose image
    text: Int32s  # and samples whose text Con-D was asked about
    probability: Floats32

    def validate(self, m: int, samples: int) -> None:
        _want(m == 0, f"{m} candidates, and others that the check confirms: want one kind")
        sizes = {len(self.image), len(self.text), len(self.probability)}
        _want(len(sizes) == 1 and sizes != {0}, f"check confirms {len(self.image)} images, {len(self.text)} texts and {len(self.probability)} probabilities")
        for places in (self.image, self.text):
            _want(bool(((places >= 0) & (places < samples)).all()), f"check confirms a place outside of {samples} samples")
        _want(not bool((self.image == self.text).any()), "check confirms an image with its own text")
        _want(bool(((self.probability >= 0) & (self.probability <= 1)).all()), "check confirms with a probability outside 0..1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What the guard of connections has measured. They are off unless the precision's lower end is above `least`.

    Without a precision it is the check of an earlier discriminator, which compared the AUC.
    """

    positives: Int32
    auc: Float64
    least: Float64
    open: bool = _optional(False)  # too little is known yet; connections are off meanwhile
    precision: Precision | None = _optional(None)
    confirmed: Confirmed | None = _optional(None)

    @property
    def off(self) -> bool:
        """Whether no connections are mined."""
        return self.open or (self.auc if self.precision is None else self.precision.low) <= self.least

    def validate(self, m: int, samples: int, high: float) -> None:
        _want(self.positives >= 0, f"check of {self.positives} known positives")
        _want(0 <= self.auc <= 1, f"check with an AUC of {self.auc:g}, want 0..1")
        _want(0 < self.least < 1, f"check against {self.least:g}, want more than 0 and less than 1")
        if self.precision is not None:
            self.precision.validate()
        _want(m == 0 or high >= 1 or not self.off, f"{m} candidates, and connections are off: want none, or a threshold of 1, which no probability is above")
        if self.confirmed is not None:
            self.confirmed.validate(m, samples)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredBatch(Batch):
    """A batch with Con-D's probability of a match for every candidate (MAFA section 4.1)."""

    SCHEMA: ClassVar[str] = "pairstream.scored_batch/1"
    RESERVED_KEY: ClassVar[bytes] = b"Batch"

    model: str
    prob_i2t: Floats32 = _optional(_floats32)
    prob_t2i: Floats32 = _optional(_floats32)
    masked: list[Mask] = _optional(list)
    ruled_out: Int32 = _optional(0)  # candidates whose probability is 0 because Con-D's own vectors were too far apart
    drawn: str = _optional("")
    check: Check | None = _optional(None)
    high: Float64 = _optional(0.0)  # threshold of connections, by ECM_HIGH or the guard; 0: the reader's own

    def validate(self) -> None:
        Batch.validate(self)
        _want(0 <= self.high <= 1, f"high is {self.high:g}, want 0..1")
        if self.check is not None:
            self.check.validate(self.m, len(self.samples), self.high)
        _text("drawn", self.drawn, MAX_NAME_BYTES)
        for name, probs, candidates in (("prob_i2t", self.prob_i2t, self.i2t), ("prob_t2i", self.prob_t2i, self.t2i)):
            _want(len(probs) == len(candidates), f"{name} has {len(probs)} values for {len(candidates)} candidates")
            _want(bool(((probs >= 0) & (probs <= 1)).all()), f"{name} holds a value outside 0..1")
            _want(not bool(probs[candidates == -1].any()), f"{name} holds a value where there is no candidate")
        zeros = sum(
            int(((probs == 0) & (candidates >= 0)).sum()) for probs, candidates in ((self.prob_i2t, self.i2t), (self.prob_t2i, self.t2i))
        )
        _want(0 <= self.ruled_out <= zeros, f"{self.ruled_out} candidates are ruled out, and {zeros} have probability 0")
        _name("model", self.model)
        _masks(self.masked, len(self.samples))
        gone = np.zeros(len(self.samples) + 1, dtype=bool)  # the last place is that of no candidate, -1
        gone[[m.sample for m in self.masked if not m.positive]] = True
        for probs, candidates in ((self.prob_i2t, self.i2t), (self.prob_t2i, self.t2i)):
            out = gone[candidates] | np.repeat(gone[:-1], self.m)
            _want(not bool(probs[out].any()), "a probability of a masked sample is not 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureBlock(Record):
    """What the training model made of a mini-batch, in training order."""

    SCHEMA: ClassVar[str] = "pairstream.feature_block/1"

    group: GroupID
    epoch: Int32
    sequence: Int32
    positions: Int32s
    dim: Int32
    v: Float16s
    t: Float16s
    step: Int64
    masked: list[Mask] = _optional(list)  # samples that the step did not learn from

    def validate(self) -> None:
        self.group.validate()
        rows = len(self.positions)
        _want(0 < self.dim <= MAX_DIM and 0 < rows <= MAX_BATCH, f"{rows} rows of {self.dim} values, want 1..{MAX_BATCH} of 1..{MAX_DIM}")
        _want(min(self.epoch, self.sequence, self.step) >= 0, f"epoch {self.epoch}, batch {self.sequence}, step {self.step}: want none negative")
        _want(bool((self.positions >= 0).all()), "a position is negative")
        _unit_rows("v", self.v, rows, self.dim)
        _unit_rows("t", self.t, rows, self.dim)
        _masks(self.masked, rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress(Record):
    """A report of the trainer or of an evaluation, for people and dashboards."""

    SCHEMA: ClassVar[str] = "pairstream.progress/1"

    kind: str
    step: Int64
    values: dict[str, Float64] = _optional(dict)
    checkpoint: str = _optional("")
    time: Int64 = _optional(0)

    def validate(self) -> None:
        _one_of("kind", self.kind, "step", "eval", "checkpoint")
        _want(self.step >= 0, f"step {self.step} is negative")
        _want(self.kind != "checkpoint" or self.checkpoint != "", "checkpoint is empty")
        _text("checkpoint", self.checkpoint, MAX_URI_BYTES)
        _want(len(self.values) <= MAX_MEASURES, f"{len(self.values)} values, want at most {MAX_MEASURES}")
        for name, value in self.values.items():
            _name("name of a value", name)
            _want(math.isfinite(value), f"{name} is {value:g}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement(Record):
    """What a person says of a connection. The latest judgement of an image and a text counts."""

    SCHEMA: ClassVar[str] = "pairstream.judgement/1"

    group: GroupID
    image: Id
    text: Id
    probability: Float32
    sample: str
    verdict: str
    time: Int64 = _optional(0)
    model: str = _optional("")  # fingerprint of the Con-D that was judged

    def validate(self) -> None:
        self.group.validate()
        _want(any(self.image) and any(self.text), "pair id is missing")
        _want(0 <= self.probability <= 1, f"probability is {self.probability:g}, want 0..1")
        _one_of("sample", self.sample, "random", "most", "least")
        _one_of("verdict", self.verdict, "match", "no match", "none")
        if self.model:
            _name("model", self.model)


RECORDS: dict[str, type[Record]] = {
    r.SCHEMA: r for r in (Pair, Seal, Embedding, Refusal, NeighborChunk, Group, Batch, ScoredBatch, FeatureBlock, Progress, Judgement)
}
SHAPES: dict[str, Shape] = {schema: shape_of(record) for schema, record in RECORDS.items()}


def unmarshal(schema: str, value: bytes | bytearray | memoryview) -> Record:
    """Check, decode and validate the value of a message whose schema header is schema."""
    if schema not in SHAPES:
        raise UnknownSchemaError(f"decoding: unknown schema {schema[:64]!r}, want one of {', '.join(sorted(SHAPES))}")
    try:
        record: Record = decode(value, SHAPES[schema])
        record.validate()
    except RecordError as err:
        raise type(err)(f"decoding {schema}: {err}") from None
    return record


def marshal(record: Record) -> bytes:
    """Validate and encode a record."""
    try:
        record.validate()
    except RecordError as err:
        raise type(err)(f"encoding {record.SCHEMA}: {err}") from None
    return Encoder().encode(record, SHAPES[record.SCHEMA])


def _want(ok: bool, message: str) -> None:
    if not ok:
        raise InvalidError(message)


def _caption(name: str, text: str) -> None:
    # What Go takes for white space; Python's strip knows four control characters more.
    _want(text.strip(WHITE_SPACE) != "", f"{name} is empty")
    _text(name, text, MAX_CAPTION_BYTES)


WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def _name(name: str, text: str, most: int = MAX_NAME_BYTES) -> None:
    _want(text != "", f"{name} is empty")
    _text(name, text, most)


def _text(name: str, text: str, most: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidError(f"{name} is not UTF-8") from None
    _want(size <= most, f"{name} has {size} bytes, want at most {most}")


def column_bytes(name: str, value: object) -> int:
    """Return what a column counts for in the bound of all columns: its name, and its text or 8 bytes."""
    return len(name.encode()) + (len(value.encode()) if isinstance(value, str) else 8)


def check_column(name: str, value: object) -> None:
    """Raise InvalidError if no pair may have this column."""
    _name("name of a column", name, MAX_COLUMN_NAME)
    if isinstance(value, str):
        _text(f"column {name}", value, MAX_COLUMN_TEXT)
    elif isinstance(value, float):
        _want(math.isfinite(value), f"column {name} is {value:g}")
    elif isinstance(value, int):
        _want(-(1 << 63) <= value < 1 << 63, f"column {name} does not fit int64")
    else:
        raise InvalidError(f"column {name} holds a {type(value).__name__}, want int, float, str or bool")


def _columns(columns: dict[str, bool | int | float | str]) -> None:
    _want(len(columns) <= MAX_COLUMNS, f"{len(columns)} columns, want at most {MAX_COLUMNS}")
    size = 0
    for name, value in columns.items():
        check_column(name, value)
        size += column_bytes(name, value)
    _want(size <= MAX_COLUMNS_BYTES, f"columns of {size} bytes, want at most {MAX_COLUMNS_BYTES}")


def _one_of(name: str, text: str, *known: str) -> None:
    _want(text in known, f"{name} is {text[:64]!r}, want one of {', '.join(known)}")


def _pair_id(got: bytes, image: bytes, caption: str) -> None:
    _want(image != _NO_ID, "image id is missing")
    want = pair_id(image, caption)
    _want(got == want, f"pair id {got.hex()} does not match its image id and caption ({want.hex()})")


def _similarity(name: str, value: float) -> None:
    _want(abs(value) <= 1 + 3 * UNIT_TOLERANCE, f"{name} is {value:g}, want -1..1")


def _unit_rows(name: str, values: NDArray[np.float16], rows: int, dim: int) -> None:
    _want(dim > 0 and len(values) == rows * dim, f"{name} has {len(values)} values, want {rows} rows of {dim}")
    table = values.reshape(rows, dim).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.sqrt((table * table).sum(axis=1))
        _want(bool((np.abs(norms - 1) <= UNIT_TOLERANCE).all()), f"a row of {name} does not have norm 1")


def _neighbors(name: str, positions: NDArray[np.int32], n: int, k: int) -> None:
    _want(k >= 0 and len(positions) == n * k, f"{name} has {len(positions)} values, want {n} x {k}")
    if k == 0:
        return
    rows = positions.reshape(n, k)
    _want(bool((rows >= -1).all()), f"{name} holds a position below -1")
    _want(not bool(((rows[:, :-1] == -1) & (rows[:, 1:] != -1)).any()), f"{name} holds a position after -1")


def _masks(masks: list[Mask], n: int) -> None:
    """Check that masks name samples of a batch of n, each image once, in order."""
    for i, m in enumerate(masks):
        _want(0 <= m.sample < n, f"sample {m.sample} of {n} is masked")
        _want(i == 0 or (masks[i - 1].sample, masks[i - 1].positive) < (m.sample, m.positive), f"mask {i} is of sample {m.sample}: want each once, in order")
        _name("reason of a mask", m.reason)


def _candidates(name: str, row: list[int], anchor: int, n: int, partners: list[int]) -> None:
    """Check the candidates of one anchor: other samples, each once, no partners; after the last of them only -1."""
    taken, ended = set(partners), False
    for c in row:
        if c == -1:
            ended = True
            continue
        _want(0 <= c < n and c != anchor, f"{name}: anchor {anchor} of {n} has candidate {c}")
        _want(not ended, f"{name}: anchor {anchor} has candidate {c} after -1")
        _want(c not in taken, f"{name}: anchor {anchor} has candidate {c} twice, or as a partner too")
        taken.add(c)

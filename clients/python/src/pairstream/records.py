"""A dataclass for every record on the topics, with numpy views of its columns.

`unmarshal` checks, decodes and validates a value; `marshal` validates and encodes a record into the bytes that the Go
programs write. Columns are read-only views of the value: a record in memory keeps its whole value there. Copy what
shall be kept alone.

The limits, and the text, schema and fields of every class, are made from Go's record types by go test ./schemas
-rewrite: change those. The methods are Python's own.
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

MAX_CAPTION_BYTES = 8_192
MAX_IMAGE_BYTES = 20_971_520
MAX_URI_BYTES = 2_048
MAX_NAME_BYTES = 256
MAX_DIM = 4_096
MAX_COLUMN_NAME = 64
MAX_COLUMN_TEXT = 1_024
MAX_COLUMNS_BYTES = 8_192
CHUNK_MEMBERS = 1_024
MAX_ASKED = 1_000
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
    """GroupID names a group: the lane and the group's number in that lane."""

    lane: Int32  # partition.
    seq: Int64  # 0, 1, 2, ... in the lane.

    def __str__(self) -> str:
        return f"{self.lane}/{self.seq}"

    def validate(self) -> None:
        _want(self.lane >= 0 and self.seq >= 0, f"group {self} has a negative number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """ImageRef points at the encoded bytes of one image inside an object of a bucket; the bytes are read with one range
    request, and their hash is the image's image_id. In groups and mini-batches it may point at a smaller copy instead.
    """

    uri: str  # Object, e.g. file:///crawl/00000.tar or s3://bucket/00000.tar.
    offset: Int64 = 0  # First byte of the image in the object.
    size: Int64  # bytes.
    # Hash of the bytes of a smaller copy of the image; absent: the bytes are the image's own.
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
    """Pair is one crawled image and one of its captions. Exactly one of image and inline is set."""

    SCHEMA: ClassVar[str] = "pairstream.pair/1"

    id: Id  # Of image_id and caption.
    image_id: Id  # Of the encoded image.
    image: ImageRef | None = _optional(None)  # Where the image is, if it is in a bucket.
    inline: Blob = _optional(b"")  # Encoded image bytes of a producer that has no bucket.
    caption: str  # In any language.
    source: str = _optional("")  # Informative: where the pair was crawled.
    crawl_time: Int64 = _optional(0)  # Informative: Unix milliseconds.
    meta: Columns = _optional(dict)  # Further metadata from the crawl; not part of the id.

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
    """Seal closes the open group of its lane. Stages pass it on, so that every lane topic shows where it was."""

    SCHEMA: ClassVar[str] = "pairstream.seal/1"

    final: bool = False  # The crawl is finite and ends here: no pair follows in this lane.
    note: str = _optional("")  # Informative: why, or by whom.
    id: str = _optional("")  # Of one sealing of all lanes: a seal that repeats one of the lane's latest counts once.
    # On groups: embeddings since the last group that were left out, as they repeat pairs of earlier groups.
    repeats: Int64 = _optional(0)

    def validate(self) -> None:
        _want(self.repeats >= 0, f"{self.repeats} repeats")
        _text("id", self.id, MAX_NAME_BYTES)
        _text("note", self.note, MAX_CAPTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding(Record):
    """Embedding is a pair with its unit vectors v = g_V(image) and t = g_T(caption) (GPN-S section 3.2)."""

    SCHEMA: ClassVar[str] = "pairstream.embedding/1"

    id: Id  # The pair's.
    image_id: Id  # The pair's.
    image: ImageRef  # Where the image is; inline bytes have been written to a bucket.
    caption: str  # The pair's.
    v: Float16s  # Unit vector of the image.
    t: Float16s  # Unit vector of the caption, as long as v.
    similarity: Float32  # V . t of the rounded vectors, in [-1, 1] up to rounding.
    model: str  # Fingerprint of the encoder's weights.

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
    """Refusal stands in the place of an embedding for a pair whose image cannot be had, or that the crawl does not
    want. An image depends on the bucket and on its roots, and rules may change, so two owners of a lane may disagree.
    The first record of a place counts, and none moves another.
    """

    SCHEMA: ClassVar[str] = "pairstream.refusal/1"

    id: Id  # The pair's.
    image_id: Id  # The pair's.
    reason: str  # In a word; where an image cannot be had, the dead letter of the pair has the whole story.
    rule: str = _optional("")  # Of a pair that is filtered: the rule that it does not meet.
    detail: str = _optional("")  # Why the rule could not be evaluated; absent: it says no.

    def validate(self) -> None:
        _want(any(self.id), "pair id is missing")
        _want(any(self.image_id), "image id is missing")
        _name("reason", self.reason)
        _text("rule", self.rule, MAX_NAME_BYTES)
        _text("detail", self.detail, MAX_NAME_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positive:
    """Positive is an image that shows the same as the anchor's (GPN-S eq. 9)."""

    image_id: Id  # Of the other image.
    image: ImageRef  # Where it is.

    def validate(self) -> None:
        _want(self.image_id != _NO_ID, "image id is missing")
        self.image.validate()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborChunk(Record):
    """NeighborChunk holds the indexer's results for consecutive members of a group, as columns. A member's position is
    its index among the group's distinct pairs in offset order; every reference to another member is a position.
    """

    SCHEMA: ClassVar[str] = "pairstream.neighbor_chunk/1"

    group: GroupID  # The members' group.
    start: Int32  # Position of the first member.
    ids: Ids  # 16 bytes a member: pair ids.
    k: Int32  # Columns of v2t.
    v2t: Int32s = _optional(_int32s)  # Members x k: texts nearest to the image, best first; -1: no such neighbour.
    k1: Int32  # Columns of se.
    # Members x k1: semantic-equivalent images (GPN-S eq. 9), best first, padded with -1.
    se: Int32s = _optional(_int32s)
    cluster: Int32s  # A member's k-means cluster.
    obj_end: Int32s  # A member's nouns are obj[obj_end[i-1]:obj_end[i]].
    obj: Int32s = _optional(_int32s)  # obj(v), GPN-S eq. 7, as indices into the manifest's nouns, ascending.
    near: Ids = _optional(_ids)  # 16 bytes a near-duplicate: its pair id.
    near_to: Int32s = _optional(_int32s)  # Position of the member whose image it resembles.
    near_cosine: Floats32 = _optional(_floats32)  # Cosine of the two images' vectors v.
    # A member's equivalent images of other groups are those from out_end[i-1] to out_end[i]; absent: there are none.
    out_end: Int32s = _optional(_int32s)
    out_images: Ids = _optional(_ids)  # 16 bytes an equivalent image of another group, best first: its id.
    # 4 values an image: number of its object in out_uris, low and high half of the offset in the object, size.
    out_place: Int32s = _optional(_int32s)
    out_uris: Blob = _optional(b"")  # URIs of the objects, each with a line feed behind it.
    out_near: Ids = _optional(_ids)  # 16 bytes a near-duplicate: its pair id.
    out_near_to: Ids = _optional(_ids)  # 16 bytes a near-duplicate: id of the image that its own resembles.
    out_near_cosine: Floats32 = _optional(_floats32)  # About the cosine of the two images' vectors v.
    copy_uri: str = _optional("")  # The tar, e.g. s3://bucket/copies/group/00000.tar; absent: there are no copies.
    copy_ids: Ids = _optional(_ids)  # 16 bytes a member: hash of the copy's bytes; zeros: the member has no copy.
    copy_block: Int32s = _optional(_int32s)  # Block of 512 bytes of the tar at which a member's copy begins.
    copy_size: Int32s = _optional(_int32s)  # Bytes of a member's copy; 0: it has none.

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
    """Group is the manifest that follows a group's last chunk."""

    SCHEMA: ClassVar[str] = "pairstream.group/1"

    group: GroupID  # The group's id.
    first_seq: Int64  # Place of the group's first embedding in its lane, without repetitions: its seq.
    end_seq: Int64  # The place after the group's last embedding.
    count: Int32  # Distinct pairs.
    duplicates: Int64  # Embeddings in the range that repeat an earlier pair of the group.
    repeats: Int64 = _optional(0)  # Embeddings in the range that repeat a pair of an earlier group, and were left out.
    # Embeddings in the range that repeat an image with another caption, where that is looked at; dropped ones are
    # repeats, too.
    same_image: Int64 = _optional(0)
    # near-duplicates in the range, where they are looked for: pairs whose image resembles that of a member.
    near: Int64 = _optional(0)
    left_out: Int64 = _optional(0)  # Of these: pairs that are no members for it.
    chunks: Int32  # Neighbor chunks of the group.
    dim: Int32  # Values of a vector.
    clusters: Int32  # k-means clusters: as many as configured, or count when that is fewer.
    min_similarity: Float32  # Smallest v . t of a pair.
    max_similarity: Float32  # Largest v . t of a pair.
    nouns: list[str] = _optional(list)  # S_n, the noun vocabulary, ascending.
    model: str  # Fingerprint of the encoder's weights.
    closed: str  # What closed the group.
    final: bool = _optional(False)  # A final seal closed it: it is the lane's last.
    k: Int32  # Parameter: nearest texts of an image.
    k1: Int32  # Parameter: nearest images of an image, of which se is chosen.
    k2: Int32  # Parameter: nearest images of a text, in which se must lie.
    p: Float64  # Parameter: obj(v) holds the nouns of more than this share of the k texts.
    min_count: Int32  # Parameter: a noun occurs more often than this in the group.
    modality: str  # Which vectors were clustered.
    digest: Digest  # SHA-256 over the chunks' bytes, in order.
    scope: str = _optional("")  # Where neighbours were looked for besides the group; absent: nowhere.
    asked: list[GroupID] = _optional(list)  # The groups that were looked at, in that order.

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
    """Sample is one pair of a mini-batch."""

    id: Id  # The pair's.
    image_id: Id  # The pair's.
    image: ImageRef  # Where the image is.
    text: str  # The text to train on: the caption, or obj(v) when replaced.
    replaced: bool = False  # GPN-S eq. 8: similarity <= alpha(e).
    position: Int32  # Of the pair in the group.
    # One of the anchor's se; absent: use an augmentation of the image itself.
    positive: Positive | None = _optional(None)
    partners: Int32s = _optional(_int32s)  # Samples of this batch that show the same image: known positives.

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
    """Batch is one mini-batch of one epoch of a group, in training order."""

    SCHEMA: ClassVar[str] = "pairstream.batch/1"

    group: GroupID  # Whose pairs these are.
    epoch: Int32  # Of the group: 0, 1, 2, ...
    sequence: Int32  # Number of the batch in the epoch: 0..batches-1.
    batches: Int32  # Batches in the epoch.
    strategy: str  # How its samples were chosen.
    samples: list[Sample]  # In training order.
    m: Int32  # Candidates per anchor and direction.
    # Samples x m: samples with the hardest texts for each image, hardest first; -1: no more candidates.
    i2t: Int32s = _optional(_int32s)
    t2i: Int32s = _optional(_int32s)  # Samples x m: samples with the hardest images for each text.
    # The trainer makes its features after the epoch, with the weights current at that time.
    again: bool = _optional(False)
    # Batches of the lane from this one to its end, known when its last group is; absent: unknown.
    left: Int64 = _optional(0)

    def validate(self) -> None:
        self.group.validate()
        n = len(self.samples)
        _want(0 < n <= MAX_BATCH, f"batch of {n} samples, want 1..{MAX_BATCH}")
        _want(self.epoch >= 0 and 0 <= self.sequence < self.batches, f"epoch {self.epoch}, batch {self.sequence} of {self.batches}")
        _want(self.left >= 0, f"{self.left} batches are left")
        _want(self.m >= 0 and len(self.i2t) == len(self.t2i) == n * self.m, f"{len(self.i2t)} and {len(self.t2i)} candidates, want {n} x {self.m}")
        _one_of("strategy", self.strategy, "random", "grit", "gns", "jest", "b3", "own")
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
    """Mask takes one image of a batch out of training: it could be read when the pair was embedded, and cannot be now.
    The sample keeps its row everywhere, so no other row moves. Its pixels are 0, it has no part in any loss, neither as
    an anchor nor as a candidate, and its row of features still travels.
    """

    sample: Int32  # Its place in the batch.
    positive: bool = _optional(False)  # Only the image of its positive: the sample's own image stands in for that.
    reason: str  # Why, in a word; readers take any.


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Precision estimates the share of true connections among the hardest candidates, at their base rate."""

    above: Float64  # Threshold of the probability.
    value: Float64  # Share of the connections that are true.
    low: Float64  # Lower end of its interval.
    high: Float64  # Upper end of its interval.
    base: Float64  # Share of the candidates that are true.
    confirmed: Float64  # Share of the candidates that are connections.
    candidates: Int32  # Candidates that Con-D was asked about.
    negatives: Int32  # Hard negatives that it was asked about.
    judged: Int32 = _optional(0)  # Connections that people have judged, which count most.
    right: Int32 = _optional(0)  # Of these: those that they call a match.

    def validate(self) -> None:
        for name in ("above", "value", "low", "high", "base", "confirmed"):
            _want(0 <= getattr(self, name) <= 1, f"precision with {name} {getattr(self, name):g}, want 0..1")
        _want(self.low <= self.value <= self.high, f"precision of {self.value:g} is outside {self.low:g}..{self.high:g}")
        _want(min(self.candidates, self.negatives) >= 0, f"precision of {self.candidates} candidates and {self.negatives} hard negatives")
        _want(0 <= self.right <= self.judged, f"precision of {self.right} matches among {self.judged} judged connections")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Confirmed:
    """Confirmed lists the candidates of a batch that Con-D confirms, as columns."""

    image: Int32s  # Sample whose image Con-D was asked about.
    text: Int32s  # Sample whose text Con-D was asked about.
    probability: Floats32  # Con-D's probability of a match.

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
    """Check holds a lane's measurement by the guard of connections: how precise Con-D is among the hardest candidates.
    A batch with connections off carries no candidates, so the trainer takes the hardest of all samples. A plan keeps
    its candidates, with a threshold of 1 that no probability exceeds. A check without precision comes from an earlier
    discriminator, which compared the auc with COND_MIN_AUC.
    """

    positives: Int32  # Known positives that Con-D was asked about.
    # Chance that Con-D gives a known positive a higher probability than a hard negative; without a precision, than a
    # mismatch.
    auc: Float64
    # Setting COND_MIN_PRECISION: connections are off unless the lower end of the precision is above it; without a
    # precision, COND_MIN_AUC for the auc.
    least: Float64
    open: bool = _optional(False)  # Too little is known yet; connections are off meanwhile.
    precision: Precision | None = _optional(None)  # Estimated precision of the connections.
    # Connections of this batch for people to judge, while connections are off.
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
    """ScoredBatch is a batch with Con-D's probability of a match for every candidate (MAFA section 4.1)."""

    SCHEMA: ClassVar[str] = "pairstream.scored_batch/1"
    RESERVED_KEY: ClassVar[bytes] = b"Batch"

    model: str  # Fingerprint of Con-D's weights.
    prob_i2t: Floats32 = _optional(_floats32)  # Samples x m, beside i2t; 0 where there is no candidate.
    prob_t2i: Floats32 = _optional(_floats32)  # Samples x m, beside t2i.
    # Samples that no step may learn from, in their order; their probabilities are 0.
    masked: list[Mask] = _optional(list)
    # Candidates whose probability is 0 because Con-D's own vectors were too far apart, so that its matching head was
    # not asked.
    ruled_out: Int32 = _optional(0)
    # Seed and augmentation by which Con-D's images were drawn; absent: it saw none or plain ones, or they were not
    # recorded.
    drawn: str = _optional("")
    # Measurement of the guard of connections; absent: the guard is off, or an earlier batch found that Con-D can be
    # trusted.
    check: Check | None = _optional(None)
    # Probability above which a candidate is a connection, by ECM_HIGH or the guard; absent: ECM_HIGH of the reader.
    high: Float64 = _optional(0.0)

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
    """FeatureBlock holds the training model's features of a mini-batch, in training order. The grouper groups the next
    epoch by them (GRIT-VLP section 3.2).
    """

    SCHEMA: ClassVar[str] = "pairstream.feature_block/1"

    group: GroupID  # The batch's.
    epoch: Int32  # The batch's.
    sequence: Int32  # The batch's.
    positions: Int32s  # Of the samples in the group, one a row.
    dim: Int32  # Values of a vector.
    v: Float16s  # Rows x dim: unit vectors of the images.
    t: Float16s  # Rows x dim: unit vectors of the texts.
    step: Int64  # The training step that made them.
    # Samples that the step did not learn from: those masked in Con-D's record, and those whose images were gone by the
    # time of the step.
    masked: list[Mask] = _optional(list)

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
    """Progress is a report of the trainer or of an evaluation, for people and dashboards: nothing is decided by it."""

    SCHEMA: ClassVar[str] = "pairstream.progress/1"

    kind: str  # Name of the report.
    step: Int64  # Training steps done.
    values: dict[str, Float64] = _optional(dict)  # Losses, learning rate, counts, recalls.
    checkpoint: str = _optional("")  # File that was written.
    time: Int64 = _optional(0)  # Informative: Unix milliseconds.

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
    """Judgement is a person's verdict on a connection. The latest judgement of an image and a text counts. Judgements
    of the random sample enter the guard's estimate of precision, as long as Con-D stays the same.
    """

    SCHEMA: ClassVar[str] = "pairstream.judgement/1"

    group: GroupID  # Where both pairs are.
    image: Id  # The pair whose image was shown.
    text: Id  # The pair whose caption was shown.
    probability: Float32  # Con-D's probability of a match.
    sample: str  # How the connection was chosen.
    verdict: str  # The person's verdict.
    time: Int64 = _optional(0)  # Informative: Unix milliseconds.
    model: str = _optional("")  # Fingerprint of the Con-D that was judged; empty: an earlier console wrote it.

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

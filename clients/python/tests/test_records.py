from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import GOLDEN, ROOT, golden

from pairstream import InvalidError, MalformedError, UnknownSchemaError, lane_of, marshal, records, unmarshal
from pairstream.wire import Kind, Shape

NAMES = sorted(p.stem for p in GOLDEN.glob("*.hex"))
assert NAMES, f"no golden records in {GOLDEN}"


@pytest.mark.parametrize("name", NAMES)
def test_golden_bytes_come_back(name: str) -> None:
    schema, value = golden(name)
    record = unmarshal(schema, value)
    assert marshal(record) == value
    assert schema == unmarshal(schema, bytearray(value)).SCHEMA


def test_columns_are_views() -> None:
    schema, value = golden("scored-batch")
    batch = unmarshal(schema, value)
    assert isinstance(batch, records.ScoredBatch)
    start = np.frombuffer(value, dtype=np.uint8).__array_interface__["data"][0]
    for column in (batch.i2t, batch.t2i, batch.prob_i2t, batch.prob_t2i):
        at = column.__array_interface__["data"][0]
        assert start <= at < start + len(value) and not column.flags.writeable
    inline = unmarshal(*golden("pair-inline"))
    assert isinstance(inline, records.Pair) and isinstance(inline.inline, memoryview) and inline.inline.readonly


HOSTILE = {
    "pairstream.batch/1": b"\x81\xa7samples\xdd\xff\xff\xff\xff",
    "pairstream.pair/1": b"\x81\xa6inline\xc6\xff\xff\xff\xff",
    "pairstream.group/1": b"\x81\xa5nouns\xdd\xff\xff\xff\xff",
    "pairstream.progress/1": b"\x81\xa6values\xdf\xff\xff\xff\xff",
    "pairstream.seal/1": b"\x81\xa1x\xdf\xff\xff\xff\xff",
}


@pytest.mark.parametrize("schema", HOSTILE)
def test_four_billion_entries_are_refused_without_memory(schema: str) -> None:
    tracemalloc.start()
    with pytest.raises(MalformedError):
        unmarshal(schema, HOSTILE[schema])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 18


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (b"", MalformedError, "ends where another was expected"),
        (b"\x80\x00", MalformedError, "1 bytes after the end"),
        (b"\x90", InvalidError, "array, want map"),
        (b"\x81\x01\x02", MalformedError, "map key is int"),
        (b"\x81\xa1x\xc1", MalformedError, "0xc1 is reserved"),
        (b"\x81\xa1x\xd4\x01\x02", MalformedError, "extension"),
        (b"\x82\xa1x\x01\xa1x\x01", MalformedError, "appears twice"),
        (b"\x82\xa5final\xc3\xa5final\xc3", MalformedError, "appears twice"),
        (b"\x81\xa5final\x01", InvalidError, "final: int, want bool"),
        (b"\x81\xa4note\xa1\xff", InvalidError, "not UTF-8"),
        (b"\x81\xa1x" + b"\x91" * 20 + b"\xc0", MalformedError, "nested deeper"),
        (b"\x81\xa1x\xdc\x10\x00" + b"\xc0" * 4096, MalformedError, "more than 4096 values"),
        (b"\xde\x02\x01" + b"".join(b"\xa3%03x\xc0" % i for i in range(513)), MalformedError, "more than 512"),
        (b"\x81\xa1x\xcd\x01", MalformedError, "ends inside a number"),
    ],
)
def test_refused(value: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        unmarshal("pairstream.seal/1", value)


def test_what_is_let_through() -> None:
    """Unknown keys are ignored, nil stands for an absent key, numbers of any width are numbers."""
    value = b"\x84\xa5final\xc3\xa4note\xc0\xa1x\x82\xa1a\xcf" + b"\xff" * 8 + b"\xa1b\xcb" + bytes(8) + b"\xa1y\x92\xc4\x01z\xd3" + b"\xff" * 8
    assert unmarshal("pairstream.seal/1", value) == records.Seal(final=True)


def test_schemas() -> None:
    with pytest.raises(UnknownSchemaError):
        unmarshal("pairstream.pair/2", b"\x80")
    with pytest.raises(InvalidError, match="reserved"):
        unmarshal("pairstream.scored_batch/1", b"\x81\xa5Batch\xc0")


def _batch(**changes: Any) -> records.Batch:
    batch = unmarshal(*golden("batch"))
    assert isinstance(batch, records.Batch)
    return dataclasses.replace(batch, **changes)


def _replaced(name: str, **changes: Any) -> records.Record:
    return dataclasses.replace(unmarshal(*golden(name)), **changes)  # type: ignore[type-var]


_COLUMN = np.array([1, 2, 3], dtype="<i4")
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("pair-inline", {"caption": " \u3000"}, "caption is empty"),
    ("pair-inline", {"caption": "x" * 8193}, "8193 bytes, want at most 8192"),
    ("pair-inline", {"caption": "other"}, "does not match its image id and caption"),
    ("pair-inline", {"inline": b"other"}, "does not match the inline image"),
    ("pair-inline", {"inline": b""}, "either an image reference or inline bytes"),
    ("pair-inline", {"image_id": bytes(16), "inline": b"", "image": records.ImageRef(uri="file:///a", size=1)}, "image id is missing"),
    ("pair-inline", {"source": "\ud800"}, "not UTF-8"),
    ("pair-by-reference", {"image": records.ImageRef(uri="", size=1)}, "uri is empty"),
    ("pair-by-reference", {"image": records.ImageRef(uri="a", size=0)}, "image size 0"),
    ("pair-by-reference", {"image": records.ImageRef(uri="a", offset=-1, size=1)}, "image offset -1"),
    ("seal", {"note": "x" * 8193}, "note has 8193"),
    ("embedding", {"similarity": 2.0}, "similarity is 2"),
    ("embedding", {"similarity": -0.9}, "but v . t is"),
    ("embedding", {"v": np.zeros(0, "<f2")}, "v has 0 values"),
    ("embedding", {"model": ""}, "model is empty"),
    ("neighbor-chunk", {"start": 1}, "start 1"),
    ("neighbor-chunk", {"ids": np.zeros(5, np.uint8)}, "5 bytes of ids"),
    ("neighbor-chunk", {"cluster": _COLUMN[:0]}, "cluster has 0"),
    ("neighbor-chunk", {"k": 7}, "v2t has"),
    ("neighbor-chunk-outside", {"out_end": _COLUMN[:0]}, "out_end has 0 values for 3 images"),
    ("neighbor-chunk-outside", {"out_place": _COLUMN[:0]}, "with 0 values of places"),
    ("neighbor-chunk-outside", {"out_uris": b"file:///a.tar\n"}, "in none of 1 objects"),
    ("neighbor-chunk-outside", {"out_uris": b"a\nb"}, "line feed"),
    ("neighbor-chunk-outside", {"out_uris": b"\xff\nb\n"}, "not UTF-8"),
    ("neighbor-chunk-outside", {"k1": 0, "se": _COLUMN[:0]}, "and k1 is 0"),
    ("neighbor-chunk-outside", {"out_near_to": np.zeros(16, np.uint8)}, "near-duplicate of other groups is missing"),
    ("group-asked", {"scope": ""}, "groups were asked"),
    ("group-asked", {"scope": "world"}, "scope is 'world'"),
    ("neighbor-chunk", {"obj_end": _COLUMN[:0]}, "obj_end has 0"),
    ("neighbor-chunk", {"group": records.GroupID(lane=-1, seq=0)}, "negative number"),
    ("group", {"count": 0}, "group of 0 pairs"),
    ("group", {"closed": "clock"}, "closed is 'clock'"),
    ("group", {"p": float("nan")}, "p is nan"),
    ("group", {"digest": b""}, "digest of 0"),
    ("group", {"nouns": ["b", "a"]}, "not after"),
    ("group", {"max_similarity": -1.0}, "similarities from"),
    ("batch", {"m": 99}, "candidates, want"),
    ("batch", {"samples": []}, "batch of 0 samples"),
    ("batch", {"sequence": 99999}, "batch 99999 of"),
    ("batch", {"strategy": "other"}, "strategy is"),
    ("scored-batch", {"prob_i2t": np.zeros(1, "<f4")}, "prob_i2t has 1"),
    ("feature-block", {"dim": 0}, "rows of 0"),
    ("feature-block", {"step": -1}, "step -1"),
    ("feature-block", {"dim": 1}, "v has"),
    ("progress-step", {"kind": "other"}, "kind is"),
    ("progress-step", {"values": {"loss": float("inf")}}, "loss is inf"),
    ("progress-step", {"values": {"": 1.0}}, "name of a value is empty"),
    ("progress-saved", {"checkpoint": ""}, "checkpoint is empty"),
]


@pytest.mark.parametrize(("name", "changes", "words"), WRONG)
def test_values_out_of_range_are_not_written(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        marshal(_replaced(name, **changes))


def test_links_of_a_batch() -> None:
    batch = _batch()
    n, m = len(batch.samples), batch.m
    assert n > 2 and m >= 2, "the golden batch has candidates"
    for row, words in (([0] * m, "candidate 0"), ([1, 1], "twice"), ([-1, 1], "after -1"), ([n, 1], f"candidate {n}")):
        i2t = batch.i2t.copy()
        i2t[:m] = (row + [-1] * m)[:m]
        with pytest.raises(InvalidError, match=words):
            marshal(dataclasses.replace(batch, i2t=i2t))
    for partners, words in (([0], "partner 0"), ([n], f"partner {n}")):
        samples = [dataclasses.replace(batch.samples[0], partners=np.array(partners, "<i4")), *batch.samples[1:]]
        with pytest.raises(InvalidError, match=words):
            marshal(dataclasses.replace(batch, samples=samples))


def test_shapes_are_those_of_the_document() -> None:
    """Every record has the keys, types, bounds and order of what may be absent that schemas/asyncapi.yaml describes."""
    document = yaml.safe_load((ROOT / "schemas/asyncapi.yaml").read_text())
    described = document["components"]["schemas"]
    for message in document["components"]["messages"].values():
        schema = message["name"]
        payload = message.get("payload")
        if payload is None or schema not in records.SHAPES:
            assert schema not in records.SHAPES
            continue
        _compare(schema, records.SHAPES[schema], payload, described)
    assert set(records.SHAPES) == {m["name"] for m in document["components"]["messages"].values() if m.get("name", "").startswith("pairstream.")}


def _compare(where: str, shape: Shape, node: dict[str, Any], described: dict[str, Any]) -> None:
    merged: dict[str, Any] = {}
    for part in [node, *node.get("allOf", [])]:
        while "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            part = described[name]
            merged["of"] = name
            for inner in part.get("allOf", []):
                merged |= inner
        merged |= part
    while "$ref" in merged:
        merged |= described[merged.pop("$ref").rpartition("/")[2]]
    want = {
        Kind.COLUMN: "bin", Kind.BYTES: "bin", Kind.STRUCT: "map", Kind.MAP: "map", Kind.LIST: "array", Kind.INT32: "int", Kind.INT64: "int",
    }.get(shape.kind, shape.kind.value)  # fmt: skip
    assert merged["x-msgpack"] == want, where
    if shape.kind in (Kind.INT32, Kind.INT64):
        assert merged["format"] == shape.kind.value, where
    if shape.size and shape.kind is Kind.BYTES:
        assert merged["x-bytes"] == shape.size, where
    if shape.kind is Kind.COLUMN and shape.dtype is not None and shape.dtype.itemsize > 1:
        assert merged["of"] == {"<i4": "int32s", "<f4": "floats32", "<f2": "float16s"}[shape.dtype.str], where
    if shape.kind is Kind.LIST:
        assert merged.get("maxItems", shape.size) == shape.size and shape.elem is not None, where
        _compare(where + "[]", shape.elem, merged["items"], described)
    if shape.kind is Kind.MAP:
        assert shape.elem is not None
        _compare(where + "{}", shape.elem, merged["additionalProperties"], described)
    if shape.kind is Kind.STRUCT:
        properties = dict(merged.get("properties", {}))
        for part in merged.get("allOf", []):
            properties |= part.get("properties", {})
        required = set(merged.get("required", []))
        assert [f.name for f in shape.fields.values()] == list(properties), where
        assert {f.name for f in shape.fields.values() if not f.optional} == required, where
        for f in shape.fields.values():
            _compare(f"{where}.{f.name}", f.shape, properties[f.name], described)


def test_lanes() -> None:
    assert lane_of(bytes([0, 0, 1, 2]) + bytes(12), 100) == 258 % 100


def test_typed() -> None:
    assert (Path(records.__file__).parent / "py.typed").exists()

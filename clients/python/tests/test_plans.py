from __future__ import annotations

import hashlib
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from crawl import WORDS, Picture, batch, draw, score
from PIL import Image
from pyarrow import parquet
from torch.utils.data import DataLoader, Dataset

from pairstream import CheckpointError, Config, InvalidError, SettingError
from pairstream.plans import Plan, PlannedBatch, PlannedBatches
from pairstream.records import Mask, ScoredBatch
from pairstream.rng import generator
from pairstream.torch import Images, PlannedTars, Recipe, ScoredBatches, augment, losses, resize, seeded
from pairstream.torch.wordpiece import WordPiece

FIRST, SECOND = [4, 3], [5, 2]  # mini-batches of two lanes in two epochs


def rows(b: ScoredBatch) -> list[dict[str, Any]]:
    """The rows that `pairstream batches` writes of a mini-batch (internal/crawl/plans)."""
    gone = {(m.sample, m.positive) for m in b.masked}
    out = []
    for i, s in enumerate(b.samples):
        p = None if (i, True) in gone else s.positive
        cut = slice(i * b.m, (i + 1) * b.m)
        out.append({
            "group": b.group.seq, "batch": b.sequence, "sample": i, "position": s.position, "pair": s.id.hex(), "image": s.image_id.hex(),
            "key": s.text.rpartition(" ")[2], "uri": s.image.uri, "offset": s.image.offset, "size": s.image.size, "copy": "", "text": s.text,
            "replaced": s.replaced, "masked": (i, False) in gone, "positive_uri": p.image.uri if p else "", "positive_offset": p.image.offset if p else 0,
            "positive_size": p.image.size if p else 0, "positive_copy": "", "positive_image": p.image_id.hex() if p else "",
            "partners": s.partners.tolist(), "i2t": b.i2t[cut].tolist(), "prob_i2t": b.prob_i2t[cut].tolist(), "t2i": b.t2i[cut].tolist(),
            "prob_t2i": b.prob_t2i[cut].tolist(), "high": b.high or 0.8,
        })  # fmt: skip
    return out


TYPES = {"sample": pa.int32(), "batch": pa.int32(), "position": pa.int32()} | {f"prob_{w}": pa.list_(pa.float32()) for w in ("i2t", "t2i")}


def write(folder: Path, pictures: list[Picture], *, masked: list[Mask] | None = None, n: int = 6) -> Path:
    """Write a plan with two lanes and two epochs, two mini-batches in a group of rows."""
    folder.mkdir()
    files = []
    for epoch, counts in enumerate((FIRST, SECOND)):
        for lane, count in enumerate(counts):
            name = f"epoch-{epoch:03}-lane-{lane:04}.parquet"
            made = [batch(pictures, lane, i, n=n, batches=count, epoch=epoch, masked=masked if i == 1 else None) for i in range(count)]
            first = pa.Table.from_pylist(rows(made[0]))
            schema = pa.schema([f.with_type(TYPES.get(f.name, f.type)) for f in first.schema])
            schema = pa.schema([pa.field(f.name, pa.list_(pa.int32())) if f.name in ("partners", "i2t", "t2i") else f for f in schema])
            # As parquet-go writes it: most texts in dictionaries, two with their lengths before them.
            shared = ["pair", "image", "uri", "copy", "positive_uri", "positive_copy", "positive_image"]
            with parquet.ParquetWriter(folder / name, schema, use_dictionary=shared, column_encoding=dict.fromkeys(("key", "text"), "DELTA_LENGTH_BYTE_ARRAY")) as writer:
                for i in range(0, count, 2):
                    writer.write_table(pa.Table.from_pylist([r for b in made[i : i + 2] for r in rows(b)], schema=schema))
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            files.append({"name": name, "epoch": epoch, "lane": lane, "batches": count, "samples": count * n, "sha256": digest})
    (folder / "plan.json").write_text(json.dumps({"version": 1, "epochs": 2, "high": 0.8, "low": 0.5, "files": files}))
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    return draw(tmp_path)


@pytest.fixture
def plan(tmp_path: Path, pictures: list[Picture]) -> Path:
    return write(tmp_path / "plan", pictures)


class Numbers(Dataset[int]):
    """A data set of the pictures' keys."""

    keys = [str(i) for i in range(24)]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> int:
        return int(self.keys[index])


def places(batches: PlannedBatches) -> list[tuple[int, int, int]]:
    """Epoch, lane and number of the mini-batches of one iteration."""
    return [(p.epoch, p.lane, p.sequence) for _, p in batches.along(batches)]


def test_an_epoch_ends_with_its_last_mini_batch(plan: Path) -> None:
    """Some loops take as many as len says, and never ask for another."""
    batches = PlannedBatches(plan, Numbers.keys)
    whole = PlannedBatches(plan, Numbers.keys)
    want = [list(whole), list(whole)]
    for epoch in want:
        taken = list(itertools.islice(batches, len(batches)))
        assert taken == epoch
    assert want[0] != want[1]
    assert len(list(itertools.islice(batches, 2))) == 2 and next(iter(batches)) == want[0][0], "an epoch that was left early begins again"


def test_a_sampler_gives_every_epoch_in_the_order_of_training(plan: Path) -> None:
    """Lanes take turns, an iteration is an epoch, and behind the last one the plan begins again."""
    batches = PlannedBatches(plan, Numbers.keys)
    loader = DataLoader(Numbers(), batch_sampler=batches, num_workers=2)
    first = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 0, 2), (0, 1, 2), (0, 0, 3)]
    second = [(1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1), (1, 0, 2), (1, 0, 3), (1, 0, 4)]
    for want in (first, second, first):
        assert len(loader) == len(want)
        found = []
        for numbers, planned in batches.along(loader):
            assert numbers.tolist() == [int(key) for key in planned.keys] and len(planned) == 6
            found.append((planned.epoch, planned.lane, planned.sequence))
        assert found == want
    assert [list(map(int, b)) for b in PlannedBatches(plan)] == list(PlannedBatches(plan, Numbers.keys)), "without keys the data set is indexed by key"
    assert list(PlannedBatches(plan, {k: 2 * i for i, k in enumerate(Numbers.keys)})) == [[2 * i for i in b] for b in PlannedBatches(plan, Numbers.keys)]


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_have_equal_numbers(plan: Path, world: int) -> None:
    whole = places(PlannedBatches(plan, Numbers.keys))
    shares = [places(PlannedBatches(plan, Numbers.keys, rank=r, world=world)) for r in range(world)]
    assert {len(s) for s in shares} == {7 // world}
    assert [b for step in zip(*shares, strict=True) for b in step] == whole[: 7 // world * world]


def test_resuming_at_a_step(plan: Path) -> None:
    whole = places(PlannedBatches(plan, Numbers.keys)) + places(_at(plan, epoch=1))
    for step in range(14):
        batches = PlannedBatches(plan, Numbers.keys)
        batches.seek(step)
        assert len(batches) == 7 - step % 7
        assert places(batches) == whole[step : step // 7 * 7 + 7]
    batches.set_epoch(1, 2)
    assert places(batches) == whole[9:] and len(batches) == 7
    with pytest.raises(CheckpointError, match="step is 7, and epoch 1 has 7 mini-batches of all ranks"):
        batches.set_epoch(1, 7)


ORDER = [
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3)],
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 3), (0, 4)],
]  # fmt: skip
ALL = [(e, *b) for e, order in enumerate(ORDER) for b in order]
# Each run is that of another number of ranks: ranks, and steps that each of them makes.
RUNS = [((2, 1), (4, 1)), ((4, 1), (1, 3)), ((1, 3), (2, 2)), ((3, 1), (2, 2)), ((2, 3), (4, 1), (3, 1)), ((2, 2), (3, 1), (1, 4), (2, 1))]


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("kind", ["seek", "state", "along", "tars"])
def test_other_ranks_go_on_where_the_last_ones_were(plan: Path, runs: tuple[tuple[int, int], ...], kind: str) -> None:
    """No mini-batch is lost or repeated, but for fewer than the ranks at the end of an epoch."""
    at, state, want = 0, {}, []
    trained: list[tuple[int, int, int]] = []
    for world, steps in runs:
        found = [_go_on(plan, kind, rank, world, steps, state, at) for rank in range(world)]
        trained += [b for step in zip(*(got for got, _ in found), strict=True) for b in step]
        state = found[0][1]
        assert all(s == state for _, s in found), "all ranks have one state"
        for _ in range(steps):
            if 7 - at % 7 < world:
                at += 7 - at % 7
            want += ALL[at : at + world]
            at += world
    assert trained == want


def _go_on(plan: Path, kind: str, rank: int, world: int, steps: int, saved: dict[str, Any], done: int) -> tuple[list[tuple[int, int, int]], dict[str, Any]]:
    """Make some steps of a rank behind a state, and return what was trained on and the state behind it."""
    got: list[tuple[int, int, int]] = []
    state: dict[str, Any] = {}
    if kind == "tars":
        tars = PlannedTars(plan, rank=rank, world=world, transform=augment(8), images=Images(roots=[]))
        if saved:
            tars.load_state_dict(saved)
        for b in tars:
            got, state = [*got, (b.epoch, b.lane, b.sequence)], b.after
            if len(got) == steps:
                return got, state
    batches = PlannedBatches(plan, Numbers.keys, rank=rank, world=world)
    if kind == "seek":
        batches.seek(done)
    elif saved:
        batches.load_state_dict(json.loads(json.dumps(saved)))
    assert len(batches) > 0, "an epoch that has nothing for this rank is over"
    loader = DataLoader(Numbers(), batch_sampler=batches, num_workers=2 if kind == "along" and rank == 0 else 0)
    while True:
        for _, p in batches.along(loader):
            got.append((p.epoch, p.lane, p.sequence))
            if len(got) == steps:
                return got, batches.state_dict()


def test_a_state_of_something_else_is_refused(plan: Path, tmp_path: Path, pictures: list[Picture]) -> None:
    batches, tars = PlannedBatches(plan), PlannedTars(plan, transform=augment(8))
    state = batches.state_dict()
    assert state == tars.state_dict() == {"epoch": 0, "batch": 0, "batches": 7}
    for change, says in (
        ({"batches": 6}, "the state is of an epoch of 6 mini-batches, epoch 0 of .* has 7"), ({"batch": 8}, "behind mini-batch 8 of 7"),
        ({"batch": -1}, "behind mini-batch -1 of 7"), ({"epoch": -1}, "of epoch -1"),
    ):  # fmt: skip
        for of in (batches, tars):
            with pytest.raises(CheckpointError, match=says):
                of.load_state_dict(state | change)
    for of in (batches, tars):
        for other in ({}, {"step": 3}, None, [], state | {"epoch": "first"}, state | {"batch": 1.5}):
            with pytest.raises(CheckpointError, match="the state is .*: want whole numbers as epoch, batch and batches"):
                of.load_state_dict(other)  # type: ignore[arg-type]
        for epoch in (-1, 1.5, None):
            with pytest.raises(SettingError, match=f"epoch is {epoch}, want a whole number from 0 on"):
                of.set_epoch(epoch)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="step is -1"):
        batches.seek(-1)
    where = write(tmp_path / "masked", pictures, masked=[Mask(sample=2, reason="x")])
    state = PlannedBatches(where).state_dict()
    with pytest.raises(CheckpointError, match="want the same plan and drop_last"):
        PlannedBatches(where, drop_last=True).load_state_dict(state)


def _at(plan: Path, epoch: int) -> PlannedBatches:
    batches = PlannedBatches(plan, Numbers.keys)
    batches.set_epoch(epoch)
    return batches


def test_what_comes_with_a_batch(plan: Path, pictures: list[Picture]) -> None:
    """Connections, negatives and positives are those that the trainers' losses make of the record."""
    record = batch(pictures, 1, 1, batches=3)
    planned = next(p for p in Plan(plan).batches(0) if (p.lane, p.sequence) == (1, 1))
    assert planned.texts == [s.text for s in record.samples] and planned.pairs == [s.id.hex() for s in record.samples]
    assert [p and p[0] for p in planned.positives] == [s.positive and s.positive.image_id.hex() for s in record.samples]
    assert [(p.uri, p.offset, p.size) for p in planned.places] == [(s.image.uri, s.image.offset, s.image.size) for s in record.samples]
    n, m = 6, record.m
    for way, column, probs in (("i2t", record.i2t, record.prob_i2t), ("t2i", record.t2i, record.prob_t2i)):
        found, p = torch.tensor(column.reshape(n, m)), torch.tensor(probs.reshape(n, m))
        connected = planned.connections(way)
        assert connected.sum() == (probs > record.high).sum() > 0
        hardest = torch.zeros(n, n).scatter(1, found.long(), torch.tensor([[2.0, 1.0]]).repeat(n, 1))  # as the plan ranks them
        picks = losses.mine(hardest, found.long(), p, torch.zeros(n, n, dtype=torch.bool), high=record.high)
        for i in range(n):
            assert bool(connected[i, int(picks.hardest[i])]) == (int(picks.classes[i]) == losses.CONNECTION)
            below = [c for c, q in zip(found[i].tolist(), p[i].tolist(), strict=True) if q < 0.5]
            assert planned.negatives(way)[i] == (below or [-1])[0]
        assert (planned.matches(way) == connected | np.eye(n, dtype=bool)).all()
    with pytest.raises(SettingError, match="way is 'both'"):
        planned.connections("both")


def test_masked_samples_are_left_out(tmp_path: Path, pictures: list[Picture]) -> None:
    """Links point at the samples that are left; a positive that is masked is not there; drop_last leaves short ones out."""
    where = write(tmp_path / "masked", pictures, masked=[Mask(sample=2, reason="x"), Mask(sample=3, positive=True, reason="x")])
    whole, planned = batch(pictures, 0, 1), next(p for p in Plan(where).batches(0) if (p.lane, p.sequence) == (0, 1))
    assert len(planned) == 5 and planned.texts == [s.text for i, s in enumerate(whole.samples) if i != 2]
    assert [p is not None for p in planned.positives] == [False, True, False, False, True]
    want = np.array([[c - (c > 2) for c in row if c != 2] + [-1] * (2 in row) for row in np.delete(whole.i2t.reshape(6, 2), 2, 0).tolist()])
    assert (planned.i2t == want).all() and (planned.prob_i2t[want == -1] == 0).all()
    assert (planned.negatives() < 5).all() and planned.same_image.shape == (5, 5)
    assert len(PlannedBatches(where, Numbers.keys)) == 7
    assert {len(b) for b in PlannedBatches(where, Numbers.keys, drop_last=True)} == {6} and len(PlannedBatches(where, Numbers.keys, drop_last=True)) == 5


def test_tars_give_what_the_stream_gives(new_log: Callable[..., Config], plan: Path, pictures: list[Picture]) -> None:
    """The same tensors as from the log, for every number of workers, and from every state."""
    options: dict[str, Any] = {"transform": augment(16), "tokenize": WordPiece(WORDS).padded(12), "seed": 3, "positives": True, "images": Images(roots=[])}
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=FIRST)
    stream = list(ScoredBatches(config, timeout=30, rank=0, world=1, **options))
    tars = PlannedTars(plan, **options)
    tars.set_epoch(0)
    for workers in (0, 2):
        found = list(DataLoader(tars, batch_size=None, num_workers=workers))
        assert len(found) == len(tars) == 7
        for a, b in zip(found, stream, strict=True):
            assert (a.lane, a.group, a.epoch, a.sequence, a.texts, a.dropped) == (b.lane, b.group, b.epoch, b.sequence, b.texts, 0)
            for name in ("images", "positives", "positions", "i2t", "t2i", "prob_i2t", "prob_t2i", "same_image", "image_ids"):
                assert torch.equal(getattr(a, name), getattr(b, name)), name
            assert all(torch.equal(a.tokens[k], b.tokens[k]) for k in b.tokens)
    whole = PlannedTars(plan, **options)
    steps = [(b.epoch, b.lane, b.sequence) for b in whole]
    assert len(whole) == len(steps) == 14
    for after in (0, 3, 7, 13):
        again = PlannedTars(plan, **options)
        again.load_state_dict({"epoch": after // 7, "batch": after % 7, "batches": 7})
        assert len(again) == 14 - after
        assert [(b.epoch, b.lane, b.sequence) for b in DataLoader(again, batch_size=None, num_workers=after % 2)] == steps[after:]
    half = PlannedTars(plan, rank=1, world=2, **options)
    half.set_epoch(1, 2)
    assert half.state_dict() == {"epoch": 1, "batch": 2, "batches": 7}
    assert [(b.after["batch"], b.epoch, b.lane, b.sequence) for b in half] == [(4, 1, 1, 1), (6, 1, 0, 3)]


def test_refusals(tmp_path: Path, plan: Path, pictures: list[Picture]) -> None:
    with pytest.raises(SettingError, match=r"plan\.json is not there"):
        PlannedBatches(tmp_path)
    with pytest.raises(SettingError, match="keys has 'a' twice"):
        PlannedBatches(plan, ["a", "b", "a"])
    with pytest.raises(InvalidError, match="and the data set has none"):
        list(PlannedBatches(plan, ["a"]))
    with pytest.raises(InvalidError, match="two images of .* have the key 'same'"):
        list(PlannedBatches(plan, name=lambda uri, key: "same"))
    assert next(iter(PlannedBatches(plan, name=lambda uri, key: (uri, key))))[0] == (pictures[0].ref.uri, "0")
    with pytest.raises(SettingError, match="rank is 2 of 2"):
        PlannedBatches(plan, rank=2, world=2)
    with pytest.raises(SettingError, match="has 7 mini-batches for 8 ranks"):
        list(PlannedBatches(plan, rank=0, world=8))
    with pytest.raises(SettingError, match="does not take its mini-batches from this sampler"):
        list(PlannedBatches(plan).along([1]))
    Plan(plan).verify()
    name = plan / "epoch-001-lane-0001.parquet"
    name.write_bytes(name.read_bytes() + b"x")
    with pytest.raises(InvalidError, match="has not the digest"):
        Plan(plan).verify()
    text = (plan / "plan.json").read_text()
    (plan / "plan.json").write_text(text.replace('"samples": 24', '"samples": 25'))
    with pytest.raises(InvalidError, match=r"has 24 rows, plan\.json says 25"):
        list(PlannedBatches(plan))
    (plan / "plan.json").write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(InvalidError, match="has version 2, want 1"):
        Plan(plan)


def test_a_plan_needs_numpy_and_pyarrow_alone(plan: Path) -> None:
    """Neither the broker's client nor msgpack, Pillow or torch is imported for a plan."""
    code = f"""
import sys
for name in ("confluent_kafka", "msgpack", "PIL", "torch", "safetensors"):
    sys.modules[name] = None
from pairstream.plans import PlannedBatches
from pairstream.torch import PlannedBatches as same
assert same is PlannedBatches
print(sum(len(b) for b in PlannedBatches({str(plan)!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "42\n", done.stderr


@pytest.mark.parametrize("command", ["read", "publish"])
def test_the_broker_client_is_an_extra(command: str) -> None:
    """Without confluent-kafka what speaks to no broker runs, and the rest says what to install."""
    code = f"""
import sys
sys.modules["confluent_kafka"] = None
import pairstream, pairstream.__main__ as main, pairstream.torch.planned
assert pairstream.__version__ and pairstream.Config
sys.exit(main.main(["{command}", *["x", "y"][: 2 * ("{command}" == "publish")]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("pairstream: speaking to brokers takes confluent-kafka: pip install"), done.stderr


def test_planned_is_a_plain_value(plan: Path) -> None:
    """A mini-batch has a length, and its columns as many rows."""
    for planned in Plan(plan).batches(1):
        assert isinstance(planned, PlannedBatch)
        assert {len(c) for c in (planned.keys, planned.images, planned.positions, planned.replaced, planned.i2t, planned.prob_t2i)} == {len(planned)}


def _mean(image: Image.Image) -> torch.Tensor:
    return torch.rand(3) + torch.tensor(image.resize((1, 1)).getpixel((0, 0)))


def test_what_a_loader_takes_can_be_pickled(plan: Path) -> None:
    """Workers by spawn and forkserver, which Python 3.14 starts with, get everything as a pickle."""
    words, picture = WordPiece(WORDS), Image.new("RGB", (40, 30), (200, 40, 0))
    for transform in (resize(16), augment(16, distort=True, ops=2), seeded(_mean), Recipe.of("tcl").images(16), Recipe().images(16)):
        again = pickle.loads(pickle.dumps(transform))
        assert torch.equal(again(picture, generator(1, "image")), transform(picture, generator(1, "image")))
    for tokenize in (words.padded(8), Recipe().captions(words, 8), Recipe().captions(words, 8, 0)):
        again = pickle.loads(pickle.dumps(tokenize))
        assert all(torch.equal(again([w])["input_ids"], tokenize([w])["input_ids"]) for w in ("A cat, a dog", WORDS[6]))
    batches = PlannedBatches(plan, Numbers.keys)
    assert list(pickle.loads(pickle.dumps(batches))) == list(batches)
    tars = PlannedTars(plan, transform=augment(8), tokenize=words.padded(8), images=Images(roots=[]))
    tars.set_epoch(1, 3)
    assert [b.texts for b in pickle.loads(pickle.dumps(tars))] == [b.texts for b in tars]
    assert pickle.loads(pickle.dumps(tars)).state_dict() == {"epoch": 1, "batch": 7, "batches": 7, "turn": 4}


@pytest.mark.parametrize("made", [(0, 0), (1, 0), (1, 1), (2, 1), (4, 3)])
def test_each_worker_goes_on_from_its_own_state(plan: Path, monkeypatch: pytest.MonkeyPatch, made: tuple[int, int]) -> None:
    """As StatefulDataLoader asks: it saves the state of every worker process, and loads it in the same one."""
    workers = [PlannedTars(plan, transform=augment(8), images=Images(roots=[])) for _ in made]
    whole = [(b.epoch, b.lane, b.sequence) for b in workers[0]]
    found: dict[int, list[tuple[int, int, int]]] = {0: [], 1: []}
    for number, (tars, count) in enumerate(zip(workers, made, strict=True)):
        monkeypatch.setattr("pairstream.torch.planned._worker", lambda number=number: SimpleNamespace(id=number, num_workers=2))
        first = pickle.loads(pickle.dumps(tars))
        source = iter(first)
        found[number] += [(b.epoch, b.lane, b.sequence) for b in itertools.islice(source, count)]
        again = pickle.loads(pickle.dumps(tars))
        again.load_state_dict(first.state_dict())
        found[number] += [(b.epoch, b.lane, b.sequence) for b in again]
        assert [(b.epoch, b.lane, b.sequence) for b in again] == whole[number::2], "a state is gone on from once"
    assert found == {0: whole[0::2], 1: whole[1::2]}


def test_stateful_loader(plan: Path) -> None:
    """torchdata's loader saves and goes on, whatever its number of workers."""
    loader = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata needs PyTorch 2").StatefulDataLoader
    make = partial(PlannedTars, plan, transform=augment(8), images=Images(roots=[]))
    whole = [(b.epoch, b.lane, b.sequence) for b in make()]
    for workers, k in ((0, 5), (2, 1), (2, 5)):
        first = loader(make(), batch_size=None, num_workers=workers)
        got = list(itertools.islice(first, k))
        second = loader(make(), batch_size=None, num_workers=workers)
        second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
        assert [(b.epoch, b.lane, b.sequence) for b in [*got, *second]] == whole, (workers, k)


def changed(plan: Path, **of_file: Any) -> Path:
    """Change what plan.json says of its first file."""
    manifest = json.loads((plan / "plan.json").read_text())
    manifest["files"][0] |= of_file
    (plan / "plan.json").write_text(json.dumps(manifest))
    return plan


@pytest.mark.parametrize("name", ["../secret.parquet", "/etc/passwd", "a/b.parquet", "..", ".", "", "a\\b", "a\0"])
def test_a_plan_names_no_file_elsewhere(plan: Path, name: str) -> None:
    (plan / "a").mkdir()
    for there in (plan.parent / "secret.parquet", plan / "a/b.parquet"):
        there.write_bytes((plan / "epoch-000-lane-0000.parquet").read_bytes())
    with pytest.raises(InvalidError, match="want a name without folders"):
        Plan(changed(plan, name=name))


def test_a_plan_of_a_stranger(plan: Path) -> None:
    """Whatever plan.json and its files hold, the error says so."""
    text = (plan / "plan.json").read_text()
    for wrong in ("", "[]", "null", "{", '{"version": 1}', "[" * 100_000, text.replace('"low": 0.5', '"low": null'), text.replace('"files": [', '"files": [3, ')):
        (plan / "plan.json").write_text(wrong)
        with pytest.raises(InvalidError, match=r"plan\.json (is no plan|has version)"):
            Plan(plan)
    (plan / "plan.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert len(PlannedBatches(plan)) == 7
    (plan / "plan.json").write_text(text)
    for wrong in ({"epoch": -1}, {"lane": -1}, {"samples": "many"}, {"epoch": [0]}):
        with pytest.raises(InvalidError, match="is no plan"):
            Plan(changed(plan, **wrong))
        (plan / "plan.json").write_text(text)
    first = plan / "epoch-000-lane-0000.parquet"
    raw = first.read_bytes()
    first.unlink()
    with pytest.raises(InvalidError, match=r"lane-0000\.parquet, which plan\.json names, is not there"):
        list(PlannedBatches(plan))
    os.mkfifo(first)
    with pytest.raises(InvalidError, match="is no file"):
        list(PlannedBatches(plan))
    with pytest.raises(InvalidError, match="is no file"):
        Plan(plan).verify()
    first.unlink()
    first.write_bytes(raw[:-9])
    with pytest.raises(InvalidError, match="cannot be read as Parquet"):
        list(PlannedBatches(plan))


def test_damage_never_ends_the_process(plan: Path) -> None:
    """pyarrow 26 ends it when it is asked for the columns of some damaged footers."""
    path, draw = plan / "epoch-000-lane-0000.parquet", random.Random(7)
    whole, refused = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 3, 30])):
            damaged[draw.randrange(len(whole) // 2, len(whole))] = draw.randrange(256)  # footers are about as long as the pages
        path.write_bytes(damaged)
        try:
            list(Plan(plan).batches(0))
        except InvalidError:
            refused += 1
    assert refused > 50


def of_rows(plan: Path, **columns: Any) -> Path:
    """Replace columns of the first file. The rows are as many as the first column has."""
    path = plan / "epoch-000-lane-0000.parquet"
    table = parquet.read_table(path)
    n = len(next(iter(columns.values())))
    table = table.take([i % table.num_rows for i in range(n)])
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(name).type))
    parquet.write_table(table, path, compression="zstd")
    return changed(plan, samples=n)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"sample": range(60_000)}, "a mini-batch of 60000 samples, at most 16384 are read"),
        ({"partners": [[6]] * 24}, r"sample 0 has partners \[6\], want those of 0..5"),
        ({"partners": [[-1]] * 24}, r"has partners \[-1\]"),
        ({"i2t": [[-2, 0]] * 24}, "candidates are -2 to 0, want -1..5"),
        ({"t2i": [[0, 6]] * 24}, "candidates are 0 to 6"),
        ({"i2t": [[0], [0, 1]] * 12}, "are no mini-batch"),
        ({"prob_i2t": [None] * 24}, "probabilities"), ({"prob_t2i": [[0.5, float("nan")]] * 24}, "probabilities"), ({"prob_t2i": [[0.5]] * 24}, "probabilities"),
        ({"text": pa.array([3] * 24)}, "text is integer, want text"),
        ({"masked": pa.array([0] * 24)}, "masked is integer, want bool"),
        ({"i2t": pa.array([1] * 24)}, "i2t is integer, want list of integer"),
    ],
)  # fmt: skip
def test_rows_of_a_stranger(plan: Path, columns: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        list(PlannedBatches(of_rows(plan, **columns)))


def test_bombs_in_a_plan(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes that stand for many are refused before they are decoded."""
    path = plan / "epoch-000-lane-0000.parquet"
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 24, pa.int32()), pa.array(["x" * (12 << 20)]))
    of_rows(plan, text=long)
    assert path.stat().st_size < 100_000
    with pytest.raises(InvalidError, match="its texts take more than 50000000 bytes"), monkeypatch.context() as m:
        m.setattr("pairstream.plans.MAX_TEXTS", 50_000_000)
        list(PlannedBatches(plan))
    monkeypatch.setattr("pairstream._pages.MAX_BYTES", 10 << 20)
    with pytest.raises(InvalidError, match=r"reading part 0 of .*: its pages take more than 10485760 bytes"):
        list(PlannedBatches(plan))

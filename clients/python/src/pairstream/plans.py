"""Mini-batches from the files of `pairstream batches`. Reading a plan takes numpy and pyarrow, and no broker.

    batches = PlannedBatches("plan", keys)                  # keys: those of the data set's examples, in its order
    loader = DataLoader(dataset, batch_sampler=batches, num_workers=4)

`Plan` reads the files, `PlannedBatch` is one mini-batch of them, and `PlannedBatches` deals them out to ranks.
`pairstream.torch.PlannedTars` reads the images as well, where they lie in tars.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _pages
from .errors import CheckpointError, InvalidError, SettingError

VERSION = 1  # of the columns
MAX_SAMPLES = 1 << 14  # of a mini-batch, whose tables of what matches have a byte for every pair of samples
MAX_TEXTS = 1 << 28  # bytes of a mini-batch's texts

Item = TypeVar("Item")
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Marks = NDArray[np.bool_]


class Place(NamedTuple):
    """Where the bytes of an image lie. copy is their hash where they are a smaller copy's, as hexadecimal digits."""

    uri: str
    offset: int
    size: int
    copy: str = ""


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One mini-batch without the samples that are masked. Rows are samples; indices into the batch are rows.

    "i2t" has images as anchors and texts as candidates, "t2i" the other way round.
    """

    epoch: int
    lane: int
    group: int
    sequence: int
    positions: Ints  # [n] of the pairs in their group
    pairs: list[str]  # ids, as hexadecimal digits
    images: list[str]
    keys: list[str]
    places: list[Place]
    texts: list[str]  # to train on: the caption, or what stands in for it
    replaced: Marks  # [n] the text is made of the image's objects
    positives: list[tuple[str, Place] | None]  # id and place of an image that shows the same; None: another view of the own
    same_image: Marks  # [n, n] known positives: samples with the same image; false on the diagonal
    i2t: Ints  # [n, m] samples with the hardest texts for each image, hardest first; -1: no more
    t2i: Ints
    prob_i2t: Floats  # [n, m] Con-D's probability of a match
    prob_t2i: Floats
    high: float  # a candidate above it is a connection
    low: float  # a candidate below it is a negative

    def __len__(self) -> int:
        return len(self.pairs)

    def connections(self, way: str = "i2t") -> Marks:
        """Mark the false negatives that Con-D has found, [n, n]."""
        found, probabilities = self._candidates(way)
        marks = np.zeros((len(self), len(self) + 1), dtype=bool)  # -1 is the last column
        np.put_along_axis(marks, np.where(probabilities > np.float32(self.high), found, -1), True, axis=1)
        return cast(Marks, marks[:, :-1])

    def matches(self, way: str = "i2t") -> Marks:
        """Mark what matches: the pairs themselves, samples with the same image, and connections, [n, n]."""
        matched: Marks = self.connections(way) | self.same_image | np.eye(len(self), dtype=bool)
        return matched

    def negatives(self, way: str = "i2t") -> Ints:
        """Return each anchor's hardest negative, the first candidate below low, or -1, [n]."""
        found, probabilities = self._candidates(way)
        if not found.shape[1]:
            return np.full(len(self), -1, dtype=np.int64)
        fit = (found >= 0) & (probabilities < np.float32(self.low))
        first = np.take_along_axis(found, fit.argmax(1)[:, None], axis=1)[:, 0]
        return cast(Ints, np.where(fit.any(1), first, -1))

    def _candidates(self, way: str) -> tuple[Ints, Floats]:
        if way not in ("i2t", "t2i"):
            raise SettingError(f"way is {way!r}, want i2t or t2i")
        return (self.i2t, self.prob_i2t) if way == "i2t" else (self.t2i, self.prob_t2i)


def kept_links(found: NDArray[Any], probabilities: Floats, keep: Sequence[int] | Ints) -> tuple[Ints, Floats]:
    """Return candidates of the rows to keep, [n, m], as indices among these: what is left, in its order, then -1."""
    place = np.full(len(found) + 1, -1, dtype=np.int64)
    place[keep] = np.arange(len(keep))
    rows = place[found[keep]]  # -1 is the last place, which is -1
    p = np.where(rows >= 0, probabilities[keep], np.float32(0)).astype(np.float32)
    first = np.argsort(rows < 0, axis=1, kind="stable")
    return np.take_along_axis(rows, first, axis=1), np.take_along_axis(p, first, axis=1)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a mini-batch is in the files."""

    file: str
    lane: int
    part: int  # group of rows
    start: int
    stop: int
    kept: int  # samples that are not masked


class _File(NamedTuple):
    """A file that plan.json names."""

    name: str
    epoch: int
    lane: int
    samples: int
    sha256: str

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> _File:
        """Check what plan.json says of a file, which must be one of the plan's folder."""
        f = cls(str(named["name"]), int(named["epoch"]), int(named["lane"]), int(named["samples"]), str(named["sha256"]))
        if f.name in ("", ".", "..") or set(f.name) & {"/", "\\", "\0"} or f.epoch < 0 or f.lane < 0:
            raise ValueError(f"file {f.name!r} of epoch {f.epoch} and lane {f.lane}: want a name without folders, and numbers from 0 on")
        return f


class Plan:
    """A folder that `pairstream batches` has written, or is still writing: epochs that are complete are there."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        path = self.folder / "plan.json"
        try:
            self.manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
            version = self.manifest.get("version")
        except FileNotFoundError as err:
            raise SettingError(f"{path} is not there: want the folder of a plan that `pairstream batches` has finished") from err
        except (ValueError, AttributeError, RecursionError) as err:
            raise InvalidError(f"{path} is no plan: {err}") from err
        if version != VERSION:
            raise InvalidError(f"{path} has version {version}, want {VERSION}: update the package pairstream")
        try:
            self.low = float(self.manifest["low"])
            self._files = sorted(map(_File.of, self.manifest["files"]), key=lambda f: (f.epoch, f.lane))
        except (KeyError, TypeError, ValueError) as err:
            raise InvalidError(f"{path} is no plan: {err!r}") from err
        self.epochs = 1 + max((f.epoch for f in self._files), default=-1)
        if not self.epochs:
            raise InvalidError(f"{path} names no mini-batches: was the data set empty?")
        self._opened: dict[str, tuple[Any, list[list[_pages.Column]]]] = {}
        self._part: tuple[tuple[str, int], Any] = (("", -1), None)

    def verify(self) -> None:
        """Compare every file with its digest in plan.json."""
        for f in self._files:
            digest = hashlib.sha256()
            with self._path(f.name).open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
            if digest.hexdigest() != f.sha256:
                raise InvalidError(f"{self.folder / f.name} has not the digest that plan.json has: write the plan anew")

    def find(self, epoch: int) -> list[_Where]:
        """Find the mini-batches of an epoch, in the order of training: the lanes take turns, as the trainers do."""
        found: list[tuple[int, int, _Where]] = []
        for f in self._files:
            if f.epoch == epoch:
                found += [(i, where.lane, where) for i, where in enumerate(self._of_file(f))]
        return [where for _, _, where in sorted(found, key=lambda f: f[:2])]

    def _of_file(self, f: _File) -> Iterator[_Where]:
        opened, _ = self._open(f.name)
        if opened.metadata.num_rows != f.samples:
            raise InvalidError(f"{self.folder / f.name} has {opened.metadata.num_rows} rows, plan.json says {f.samples}: write the plan anew")
        for part in range(opened.num_row_groups):
            table = self._part_of(f.name, part, ["sample", "masked"])
            starts = np.flatnonzero(table["sample"].to_numpy() == 0)
            if not len(starts) or starts[0] != 0:
                raise InvalidError(f"{self.folder / f.name}: part {part} does not begin with a mini-batch")
            kept = np.add.reduceat(~table["masked"].to_numpy(), starts, dtype=np.int64)
            for start, stop, n in zip(starts.tolist(), [*starts[1:].tolist(), table.num_rows], kept.tolist(), strict=True):
                if stop - start > MAX_SAMPLES:
                    raise InvalidError(f"{self.folder / f.name} has a mini-batch of {stop - start} samples, at most {MAX_SAMPLES} are read")
                yield _Where(f.name, f.lane, part, start, stop, n)

    def read(self, epoch: int, where: _Where) -> PlannedBatch:
        """Read a mini-batch. The part of the file that it is in stays in memory for the next ones."""
        if self._part[0] != (where.file, where.part):
            self._part = ((where.file, where.part), self._part_of(where.file, where.part, list(_COLUMNS)).combine_chunks())
        rows = self._part[1].slice(where.start, where.stop - where.start)
        try:
            return _batch(rows, epoch, where.lane, self.low)
        except (InvalidError, ValueError, TypeError, IndexError) as err:
            raise InvalidError(f"{self.folder / where.file}: rows {where.start} to {where.stop} of part {where.part} are no mini-batch: {err}") from err

    def batches(self, epoch: int) -> Iterator[PlannedBatch]:
        """Read the mini-batches of an epoch, in the order of training."""
        for where in self.find(epoch):
            if where.kept:
                yield self.read(epoch, where)

    def _path(self, name: str) -> Path:
        """Return the path of a file, which must be one: opening a pipe would wait for ever."""
        path = self.folder / name
        if path.exists() and not path.is_file():
            raise InvalidError(f"{path} is no file")
        return path

    def _open(self, name: str) -> tuple[Any, list[list[_pages.Column]]]:
        """Return a file of the plan, and the columns of its parts."""
        if name not in self._opened:
            try:
                from pyarrow import parquet
            except ImportError as err:
                raise SettingError(f"reading a plan takes pyarrow: pip install pyarrow ({err})") from err
            self._opened = {n: f for n, f in self._opened.items() if n.partition("-lane")[0] == name.partition("-lane")[0]}  # of the same epoch
            path = self._path(name)
            try:
                with path.open("rb") as file:
                    groups = _pages.groups(file, path.stat().st_size)
                _check_columns(path, parquet.read_schema(path))
                opened = parquet.ParquetFile(path, read_dictionary=_pages.dictionaries(groups, _TEXTS))
            except FileNotFoundError as err:
                raise InvalidError(f"{path}, which plan.json names, is not there: write the plan anew") from err
            except (_pages.PagesError, ValueError, OSError) as err:  # pyarrow raises both for broken bytes
                raise InvalidError(f"{path} cannot be read as Parquet: {err}") from err
            self._opened[name] = opened, groups
        return self._opened[name]

    def _part_of(self, name: str, part: int, columns: list[str]) -> Any:
        """Read columns of a part, whose pages must not take too much."""
        (opened, groups), path = self._open(name), self.folder / name
        try:
            with path.open("rb") as file:
                _pages.check(file, path.stat().st_size, groups[part], whole=True)
            return opened.read_row_group(part, columns=columns)
        except (_pages.PagesError, ValueError, OSError) as err:
            raise InvalidError(f"reading part {part} of {path}: {err}") from err

    def __getstate__(self) -> dict[str, Any]:
        """Go to a worker process without open files."""
        return self.__dict__ | {"_opened": {}, "_part": (("", -1), None)}


def _check_columns(path: Path, schema: Any) -> None:
    """Refuse a file without the columns of a plan."""
    import pyarrow as pa

    def kind(of: Any) -> str:
        if pa.types.is_dictionary(of):
            return kind(of.value_type)
        if pa.types.is_list(of) or pa.types.is_large_list(of):
            return "list of " + kind(of.value_type)
        for name, is_it in (("integer", pa.types.is_integer), ("float", pa.types.is_floating), ("bool", pa.types.is_boolean), ("text", pa.types.is_string)):
            if is_it(of):
                return name
        return str(of)

    found = {field.name: kind(field.type) for field in schema}
    wrong = [f"{name} is {found.get(name, 'not there')}, want {want}" for name, want in _COLUMNS.items() if found.get(name) != want]
    if wrong:
        raise InvalidError(f"{path} has not the columns of a plan: {'; '.join(wrong)}")


def _batch(rows: Any, epoch: int, lane: int, low: float) -> PlannedBatch:
    """Make a mini-batch of its rows in the file."""
    n = rows.num_rows
    _check_texts(rows)
    columns = {name: rows[name].to_pylist() for name in _TEXTS}
    masked = rows["masked"].to_numpy()
    keep = np.flatnonzero(~masked)
    same = np.zeros((n, n), dtype=bool)
    for i, partners in enumerate(rows["partners"].to_pylist()):
        if any(not 0 <= p < n for p in partners):
            raise InvalidError(f"sample {i} has partners {partners}, want those of 0..{n - 1}")
        same[i, partners] = True
    links: dict[str, Any] = {}
    for way in ("i2t", "t2i"):
        found: Ints = np.array(rows[way].to_pylist(), dtype=np.int64).reshape(n, -1)
        if found.size and not (found.min() >= -1 and found.max() < n):
            raise InvalidError(f"candidates are {found.min()} to {found.max()}, want -1..{n - 1}")
        p: Floats = np.array(rows["prob_" + way].to_pylist(), dtype=np.float32).reshape(n, -1)
        if p.shape != found.shape or not ((p >= 0) & (p <= 1)).all():
            raise InvalidError(f"prob_{way} has no probabilities, one for each candidate")
        links[way], links["prob_" + way] = kept_links(found, p, keep)
    offsets, sizes = rows["offset"].to_pylist(), rows["size"].to_pylist()
    positives = list(zip(columns["positive_image"], columns["positive_uri"], rows["positive_offset"].to_pylist(), rows["positive_size"].to_pylist(), columns["positive_copy"], strict=True))  # fmt: skip
    high = rows["high"].to_numpy()[0]
    return PlannedBatch(
        epoch=epoch, lane=lane, group=rows["group"][0].as_py(), sequence=rows["batch"][0].as_py(), positions=rows["position"].to_numpy()[keep].astype(np.int64),
        pairs=[columns["pair"][i] for i in keep], images=[columns["image"][i] for i in keep], keys=[columns["key"][i] for i in keep],
        places=[Place(columns["uri"][i], offsets[i], sizes[i], columns["copy"][i]) for i in keep], texts=[columns["text"][i] for i in keep],
        replaced=rows["replaced"].to_numpy()[keep], positives=[(positives[i][0], Place(*positives[i][1:])) if positives[i][1] else None for i in keep],
        same_image=same[np.ix_(keep, keep)], high=float(high), low=min(low, float(high)), **links,
    )  # fmt: skip


def _check_texts(rows: Any) -> None:
    """Refuse texts that take too much once every row has its own."""
    from pyarrow import compute

    total = 0
    for name in _TEXTS:
        for chunk in rows[name].chunks:
            shared = hasattr(chunk, "dictionary")
            lengths = compute.take(compute.binary_length(chunk.dictionary), chunk.indices) if shared else compute.binary_length(chunk)
            total += compute.sum(compute.cast(lengths, "int64")).as_py() or 0
        if total > MAX_TEXTS:
            raise InvalidError(f"its texts take more than {MAX_TEXTS} bytes")


_TEXTS = ("pair", "image", "key", "uri", "copy", "text", "positive_image", "positive_uri", "positive_copy")
_COLUMNS = {
    **dict.fromkeys(_TEXTS, "text"), **dict.fromkeys(("group", "batch", "sample", "position", "offset", "size", "positive_offset", "positive_size"), "integer"),
    **dict.fromkeys(("replaced", "masked"), "bool"), **dict.fromkeys(("partners", "i2t", "t2i"), "list of integer"),
    **dict.fromkeys(("prob_i2t", "prob_t2i"), "list of float"), "high": "float",
}  # fmt: skip


class Shares:
    """Deals the mini-batches of every epoch out to ranks: equal numbers for all, the same at every start.

    A place in the plan is an epoch and the number of its mini-batches that all ranks together have had. It holds for any number
    of ranks: from there on, rank r of W takes the first mini-batch but r, and every W-th one behind it. The last ones of an
    epoch, fewer than W, are left out. rank and world are torchrun's RANK and WORLD_SIZE, if nothing else is said. drop_last
    leaves out the mini-batches that are smaller than the largest of the epoch: those at the end of a group, and those with
    masked samples.
    """

    def __init__(self, plan: Plan, rank: int | None, world: int | None, drop_last: bool) -> None:
        self.plan, self.drop_last = plan, drop_last
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
        if not 0 <= self.rank < self.world:
            raise SettingError(f"rank is {self.rank} of {self.world}, want 0 or more and less than that (RANK, WORLD_SIZE)")
        self._found: tuple[int, list[_Where]] = (-1, [])
        self._totals: dict[int, int] = {}

    def _of_all(self, epoch: int) -> list[_Where]:
        """Find the mini-batches of an epoch, of all ranks."""
        if self._found[0] == epoch:
            return self._found[1]
        found = [where for where in self.plan.find(epoch % self.plan.epochs) if where.kept]
        if self.drop_last:
            full = max((where.kept for where in found), default=0)
            found = [where for where in found if where.kept == full]
        if len(found) < self.world:
            raise SettingError(f"epoch {epoch} of {self.plan.folder} has {len(found)} mini-batches for {self.world} ranks (WORLD_SIZE): want one for each")
        self._found, self._totals[epoch % self.plan.epochs] = (epoch, found), len(found)
        return found

    def of(self, epoch: int, done: int = 0) -> list[_Where]:
        """Find this rank's mini-batches of an epoch, behind those that all ranks have had."""
        rest = self._of_all(epoch)[done:]
        return rest[: len(rest) // self.world * self.world][self.rank :: self.world]

    def total(self, epoch: int) -> int:
        """Return the number of an epoch's mini-batches, of all ranks."""
        known = self._totals.get(epoch % self.plan.epochs)
        return len(self._of_all(epoch)) if known is None else known

    def count(self, epoch: int, done: int = 0) -> int:
        """Return the number of a rank's mini-batches of an epoch, behind those that all ranks have had."""
        return (self.total(epoch) - done) // self.world

    def check(self, epoch: int, done: int) -> None:
        """Raise SettingError for what is no epoch, and CheckpointError for what is no place in one."""
        if not isinstance(epoch, (int, np.integer)) or epoch < 0:
            raise SettingError(f"epoch is {epoch!r}, want a whole number from 0 on")
        if not 0 <= done < self.total(epoch):
            raise CheckpointError(f"step is {done}, and epoch {epoch} has {self.total(epoch)} mini-batches of all ranks: want 0 or more and less than that")

    def locate(self, done: int) -> tuple[int, int]:
        """Return the place behind so many mini-batches of all ranks since the beginning."""
        if done < 0:
            raise SettingError(f"step is {done}, want 0 or more")
        epoch = 0
        while done >= self.total(epoch):
            done -= self.total(epoch)
            epoch += 1
        return self.settled(epoch, done)

    def settled(self, epoch: int, done: int) -> tuple[int, int]:
        """Return the beginning of the next epoch for a place that leaves fewer mini-batches than ranks."""
        return (epoch, done) if self.count(epoch, done) else (epoch + 1, 0)

    def state(self, epoch: int, done: int) -> dict[str, Any]:
        """Return a place as it stands in checkpoints."""
        return {"epoch": epoch, "batch": done, "batches": self.total(epoch)}

    def place(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """Return the place of a state, whatever number of ranks has written it."""
        names = ("epoch", "batch", "batches")
        if not isinstance(state, Mapping) or any(not isinstance(state.get(name), (int, np.integer)) for name in names):
            raise CheckpointError(f"the state is {state!r:.200}: want whole numbers as epoch, batch and batches, which count the mini-batches of all ranks")
        epoch, done, total = (int(state[name]) for name in names)
        if total != self.total(epoch):
            raise CheckpointError(f"the state is of an epoch of {total} mini-batches, epoch {epoch} of {self.plan.folder} has {self.total(epoch)}: want the same plan and drop_last")
        if epoch < 0 or not 0 <= done <= total:
            raise CheckpointError(f"the state is behind mini-batch {done} of {total} of epoch {epoch}")
        return self.settled(epoch, done)


def _key(uri: str, key: str) -> Hashable:
    """Name an example by its key alone."""
    return key


class PlannedBatches:
    """A batch sampler for data sets by index: DataLoader(dataset, batch_sampler=PlannedBatches("plan", keys)).

    keys are the keys of the data set's examples in its order, or a mapping from key to index; without them the data set is
    indexed by key. A key is that of the plan's column "key". name makes another one, of the tar and the key, where tars repeat
    keys: name=lambda uri, key: (uri, key).

    Each iteration gives the next epoch of this rank; behind the last one the plan begins again. set_epoch chooses one, and a
    place in it to go on from; seek does so by the number of mini-batches since the beginning. Places count the mini-batches of all
    ranks: k steps of W ranks are k * W. So a run may go on with another number of ranks. state_dict has the place behind what
    `along` has given, or without along behind what this sampler has given, which loaders with workers ask ahead of their time.

    What the plan knows of a mini-batch comes with it from `along`:

        for (images, captions), planned in batches.along(loader):
            loss = step(images, planned.texts, planned.matches(), planned.negatives())
    """

    def __init__(
        self, plan: str | os.PathLike[str] | Plan, keys: Sequence[Hashable] | Mapping[Hashable, int] | None = None, *,
        name: Callable[[str, str], Hashable] = _key,
        rank: int | None = None, world: int | None = None, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        self._shares = Shares(self.plan, rank, world, drop_last)
        self._name = name
        self._index = None if keys is None else keys if isinstance(keys, Mapping) else _numbered(keys)
        # Hashes of the places that the data set's examples stand for.
        self._taken: Any = {} if self._index is None else np.zeros(1 + max(self._index.values(), default=-1), dtype=np.int64)
        self._begin(0, 0)
        self._handed: deque[tuple[PlannedBatch, tuple[int, int]]] | None = None

    def _begin(self, epoch: int, step: int) -> None:
        """Let the next iteration begin at a place."""
        self.epoch, self.step = epoch, step
        self._given = epoch, step

    def __len__(self) -> int:
        return self._shares.count(self.epoch, self.step)

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self._shares.world

    def steps(self, epoch: int = 0) -> int:
        """Return the number of this rank's mini-batches in a whole epoch."""
        return self._shares.count(epoch)

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Let the next iteration be that of an epoch, without its first mini-batches: as many as step says, of all ranks together."""
        self._shares.check(epoch, step)
        self._begin(epoch, step)

    def seek(self, step: int) -> None:
        """Go on behind so many mini-batches since the beginning of the first epoch, of all ranks together.

        An epoch counts with all its mini-batches, also those that are left out at its end.
        """
        self._begin(*self._shares.locate(step))

    def state_dict(self) -> dict[str, Any]:
        """Return the place behind what was given, for any number of ranks."""
        return self._shares.state(*self._given)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._begin(*self._shares.place(state))

    def __iter__(self) -> Iterator[list[Any]]:
        epoch, done = self.epoch, self.step
        self._given = epoch, done
        left = self._shares.of(epoch, done)
        for i, where in enumerate(left, 1):
            batch = self.plan.read(epoch % self.plan.epochs, where)
            indices = self.indices(batch)
            done += self._shares.world
            if self._handed is None:
                self._given = epoch, done
            else:
                self._handed.append((batch, (epoch, done)))
            if i == len(left):
                self.epoch, self.step = epoch + 1, 0  # before the last one is given: transformers 5 takes no more
            yield indices

    def indices(self, batch: PlannedBatch) -> list[Any]:
        """Return the indices of a mini-batch's samples in the data set."""
        out: list[Any] = []
        for key, place in zip(batch.keys, batch.places, strict=True):
            name = self._name(place.uri, key)
            if self._index is None:
                index, before = name, self._taken.get(name, 0)
            elif name in self._index:
                index = self._index[name]
                before = self._taken[index]
            else:
                raise InvalidError(f"{self.plan.folder} has the key {name!r} of {place.uri}, and the data set has none: want the keys of the data that was planned")
            at = hash((place.uri, place.offset))
            if before not in (0, at):
                raise InvalidError(f"two images of {self.plan.folder} have the key {name!r}: give name, such as name=lambda uri, key: (uri, key)")
            self._taken[index] = at
            out.append(index)
        return out

    def along(self, loader: Iterable[Item]) -> Iterator[tuple[Item, PlannedBatch]]:
        """Iterate over a loader of this sampler; each item comes with its mini-batch of the plan."""
        self._handed = deque()
        try:
            for item in loader:
                if not self._handed:
                    raise SettingError("the loader does not take its mini-batches from this sampler: want DataLoader(..., batch_sampler=batches)")
                planned, self._given = self._handed.popleft()
                yield item, planned
        finally:
            self._handed = None


def _numbered(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    index = {key: i for i, key in enumerate(keys)}
    if len(index) < len(keys):
        twice = next(key for i, key in enumerate(keys) if index[key] != i)
        raise SettingError(f"keys has {twice!r} twice: want a key for each example; name makes one of tar and key")
    return index

"""Scored mini-batches as a dataset for torch's DataLoader."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from torch.utils import data
from torch.utils.data import IterableDataset

from ..config import Config
from ..errors import CheckpointError, InvalidError, SettingError
from ..reader import Message, Position, Reader, lanes_of
from ..records import ScoredBatch, Seal
from ..topics import SCORED
from .batch import Batch
from .images import Images, Transform
from .loading import Loading, processors

State = dict[str, Any]


class ScoredBatches(Loading, IterableDataset[Batch]):
    """The mini-batches of this rank's lanes, in an order that depends on nothing but the lanes' content.

    Use it as DataLoader(batches, batch_size=None, num_workers=W): whole mini-batches come out, the same for every W. Of R
    ranks (by default torchrun's RANK and WORLD_SIZE), rank r has the lanes that leave the rest r by R, as in the built-in
    trainer. Lanes take strict turns; those that have ended with a final seal are left out; when all have, iteration ends.

    `state_dict()` says how far iteration is, and `load_state_dict()` goes on from there, as torchdata's StatefulDataLoader
    expects. Each batch carries the same in its field after, for trainers that save what they have trained on.

    A sample whose image cannot be read is dropped, and counted in the batch's dropped; a batch of which nothing is left
    raises ImageError. ReadTimeout comes when a lane has nothing new for timeout seconds, GapError and RecordError as from
    Reader. The dataset reads ahead no further than its own batch: let DataLoader's workers prefetch.
    """

    def __init__(
        self,
        config: Config,
        *,
        transform: Transform,
        tokenize: Callable[[list[str]], Any] | None = None,
        positives: bool = False,
        second: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
        lanes: Sequence[int] | None = None,
        images: Images | None = None,
        threads: int = 4,
        timeout: float = 600.0,
    ) -> None:
        Loading.__init__(self, transform, tokenize, images if images is not None else Images(), positives=positives, second=second, seed=seed)
        self.config, self.threads, self.timeout = config, threads, timeout
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
        if not 0 <= self.rank < self.world:
            raise SettingError(f"RANK is {self.rank} of WORLD_SIZE {self.world}, want 0 or more and less than it")
        every = list(range(lanes_of(config, SCORED))) if lanes is None else list(lanes)
        self.lanes = every[self.rank :: self.world]
        if not self.lanes:
            raise SettingError(f"RANK is {self.rank} of {self.world}, and {len(every)} lanes leave it none")
        self._state: State = start_of(self.lanes)

    def state_dict(self) -> State:
        """Return how far iteration is."""
        return copy.deepcopy(self._state)

    def load_state_dict(self, state: State) -> None:
        """Go on from a state of the same lanes."""
        try:
            found = [lane["lane"] for lane in state["lanes"]]
            inside = 0 <= state["turn"] < len(found)
        except (KeyError, TypeError) as err:
            raise CheckpointError(f"the state is {state!r:.200}: want one of ScoredBatches.state_dict, with lanes and turn") from err
        if found != self.lanes or not inside:
            raise CheckpointError(f"the state is of lanes {found}, this rank has {self.lanes} (LANES, RANK, WORLD_SIZE)")
        self._state = {"index": 0} | copy.deepcopy(state)

    def __iter__(self) -> Iterator[Batch]:
        worker = cast(Any, data).get_worker_info()  # without annotations in PyTorch 1.13
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        at = copy.deepcopy(self._state)
        positions = {lane["lane"]: Position(**lane["scored"]) for lane in at["lanes"] if not lane["ended"]}
        if not positions:
            return
        alone = workers >= processors()
        with Reader(self.config, SCORED, positions, timeout=self.timeout) as reader, ThreadPoolExecutor(self.threads) as pool:
            while (message := self._next(reader, at)) is not None:
                mine = at["index"] % workers == number
                at["index"] += 1
                if not mine:
                    continue  # another worker decodes it
                batch = self.load(cast(ScoredBatch, message.record()), pool, alone)
                batch.after = copy.deepcopy({k: v for k, v in at.items() if k != "index"})
                self._state = copy.deepcopy(at)
                yield batch

    def _next(self, reader: Reader, at: State) -> Message | None:
        """Take the next batch in turn, and move the state past it; None if every lane has ended."""
        while True:
            lanes = at["lanes"]
            place = next((i % len(lanes) for i in range(at["turn"], at["turn"] + len(lanes)) if not lanes[i % len(lanes)]["ended"]), None)
            if place is None:
                return None
            lane = lanes[place]
            message = reader.next(lane["lane"])
            lane["scored"] = {"offset": message.after.offset, "seq": message.after.seq}
            if message.schema == ScoredBatch.SCHEMA:
                lane["features"] += 1
                at["turn"] = (place + 1) % len(lanes)
                return message
            record = message.record()
            if not isinstance(record, Seal):
                raise InvalidError(f"scored, lane {message.lane}, offset {message.offset}: {record.SCHEMA} does not belong on this topic")
            lane["ended"] = record.final


def start_of(lanes: Sequence[int]) -> State:
    """Return the state of a dataset that has read nothing."""
    return {
        "lanes": [{"lane": lane, "scored": {"offset": 0, "seq": 0}, "features": 0, "ended": False} for lane in lanes],
        "turn": 0,
        "index": 0,
    }

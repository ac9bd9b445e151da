"""A small trainer: one process for each GPU, features published for the grouper, checkpoints that resume to the bit.

    Trainer(model, optimizer, batches, "checkpoints").run()        # under torchrun with any number of ranks, or without

The contract is the built-in trainer's: it reads `scored` exactly once, publishes `features` in its place, and saves
weights and positions together. The model's forward takes a Batch and returns an Output. One step is one batch of each
rank that has one left, times accumulate; gradients are averaged over all of them. Features are published before the next batch is taken.

What is promised:

1. A checkpoint is written after all features up to its positions are acknowledged, beside its name, synced and renamed.
   It has weights, optimizer, step and the positions of all lanes; generators need no state (2), bfloat16 no scaler.
2. Random numbers of a step (dropout) are drawn from a generator keyed by the seed and the batch. So with the same number
   of ranks, on a CPU or with deterministic kernels, a run that was killed ends in the same weights and features.
3. With another number of ranks lanes are dealt anew: every batch is trained on once, in another order.
4. Features that are in the log already are not published again.
5. One job has the folder: another one gets CheckpointError. So does a checkpoint of another log or namespace.

Whatever ends a run by an exception of this package (a gap in a lane, no record within the timeout, features that the
brokers refuse) leaves the last checkpoint, from which the next run goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ..errors import CheckpointError, InvalidError, NotFiniteError, PairstreamError
from ..producer import Publisher
from ..reader import Lag, identity, last_seq
from ..records import FeatureBlock, Progress
from ..rng import generator
from ..topics import FEATURES, PROGRESS, SCORED
from .batch import Batch, Output
from .checkpoint import load_trained
from .dataset import ScoredBatches, State, start_of
from .sharded import clip as clip_shards
from .sharded import device_of, is_cut, is_sharded, join, part, whole

KEPT = 2  # checkpoints
REPORT_EVERY = 10  # steps between two records on the progress topic
FORMAT = 1

_torch: Any = torch  # for what annotations of PyTorch leave out, in one version or another


class Trainer:
    """Trains a model on scored mini-batches; see the module for what is promised.

    every: steps between two checkpoints. precision: "float32" or "bfloat16" (autocast). clip: the largest norm of the
    gradient. schedule: the learning rate's factor at a step, as LambdaLR takes it. A model that shard has cut stays so. publish=False trains without writing
    features or progress, beside a trainer that does. observe is told (step, output, batch) after every batch of this rank, before the step is made.
    A model with the attribute together exchanges with all ranks in its forward (`everyone`): ranks without a batch left go along.
    A model with a method end_step gets it called before every step of the optimizer, on all ranks, with a batch or without.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: ScoredBatches,
        folder: str | Path,
        *,
        every: int = 1000,
        accumulate: int = 1,
        clip: float = 0.0,
        precision: str = "float32",
        compile: bool = False,
        schedule: Callable[[int], float] | None = None,
        device: str = "cpu",
        workers: int = 0,
        publish: bool = True,
        timeout: float = 600.0,
        observe: Callable[[int, Output, Batch], None] | None = None,
    ) -> None:
        self.rank, self.world = batches.rank, batches.world
        self.device, self.sharded = device_of(device), is_sharded(model)
        self.model, self.optimizer, self.batches, self.folder = model.to(self.device), optimizer, batches, Path(folder)
        self.every, self.accumulate, self.clip, self.workers, self.timeout = every, accumulate, clip, workers, timeout
        self.together = self.sharded or getattr(model, "together", False)
        self.precision, self.schedule, self.publishing, self.observe = precision, schedule, publish, observe
        self.rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            if self.sharded and not all(map(is_cut, group["params"])):
                group["foreach"] = group["fused"] = False  # they take no shards beside whole tensors
        self.step = self.dropped = 0  # samples dropped on all ranks since the last report
        self.at: State = start_of(batches.lanes)
        self._began = self.world > 1 and not dist.is_initialized()
        if self._began:
            join(self.device, timeout)
        self._lock = self._take_folder()
        self.log = identity(batches.config)
        self._load()
        torch_compile = getattr(torch, "compile", None)
        wrapped: nn.Module = torch_compile(self.model) if compile and torch_compile else self.model
        ids = [torch.device(self.device)] if self.device.startswith("cuda") else None
        # Buffers stay as each rank has them: copying them before a forward would wait for ranks that have no batch left.
        whole_ranks = self.world > 1 and not self.sharded
        self.wrapped = DistributedDataParallel(wrapped, ids, find_unused_parameters=True, broadcast_buffers=False) if whole_ranks else wrapped
        self.publisher = Publisher(batches.config, timeout=timeout)
        self.published = {lane: last_seq(batches.config, FEATURES, lane) for lane in batches.lanes}
        self.lag = Lag(batches.config, "trainer", SCORED)
        self.board = _board(self.folder) if self.rank == 0 else None

    def run(self, steps: int = 0) -> int:
        """Train until every lane has ended, or so many steps more; return the number of steps made in all. Once only."""
        loader = DataLoader(self.batches, batch_size=None, num_workers=self.workers, pin_memory=self.device.startswith("cuda"))
        source, last = iter(loader), self.step + steps if steps else math.inf
        saved = self.step
        try:
            while self.step < last and self._step(source):
                if self.every and self.step % self.every == 0:
                    self.save()
                    saved = self.step
            if self.step > saved:
                self.save()
            self.publisher.flush()
            self.lag.commit(self.at)
        except BaseException:
            self.publisher.abort()
            raise
        finally:
            self.lag.close()
            if self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_UN)  # processes of the loader may have the file open for a moment longer
                self._lock.close()
        if self._began:
            # Nothing of DDP may end the group: it would wait for gloo's threads with the lock that they need to free a tensor.
            self.wrapped = self.model
            dist.destroy_process_group()
        return self.step

    def _step(self, source: Iterator[Batch]) -> bool:
        """Make one step; False if no rank has a batch left."""
        started = time.monotonic()
        self._set_rate()
        self.optimizer.zero_grad(set_to_none=True)
        taken, outputs, averaged = self._learn(source)
        counts, dropped = self._told(len(taken), sum(b.dropped for b in taken))
        if not any(counts):
            return False
        self.dropped += sum(dropped)
        (finite,) = self._told(int(all(map(_finite, outputs))))
        if not all(finite):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFiniteError(f"step {self.step}: a loss is no finite number on rank {finite.index(0)}: {[o.values for o in outputs]}")
        if not averaged:
            self._average_gradients(sum(counts))
        if self.clip and self.sharded:
            clip_shards(self.model, self.clip)
        elif self.clip:
            _torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        if (end_step := getattr(self.model, "end_step", None)) is not None:
            end_step()
        self.optimizer.step()
        self._report(outputs, taken, time.monotonic() - started)
        self.lag.tell(self.at)
        self.step += 1
        return True

    def _learn(self, source: Iterator[Batch]) -> tuple[list[Batch], list[Output], bool]:
        """Add up the gradients of a step's batches of this rank; the last value says that they are the mean of all ranks already.

        Features are published batch by batch: those of this one may be what the grouper waits for to make the next.
        """
        taken: list[Batch] = []
        outputs: list[Output] = []
        averaged = False
        for _ in range(self.accumulate):
            batch, here = next(source, None), [1]
            if self.together or self.accumulate == 1:
                (here,) = self._told(int(batch is not None))
            if batch is not None:
                averaged = self.world > 1 and not self.sharded and self.accumulate == 1 and all(here)  # DDP does it while it computes
                outputs.append(self._backward(self._lent(batch, here), averaged))
                taken.append(batch)
                if all(map(_finite, outputs)):
                    self._publish(batch, outputs[-1])
            elif self.together and any(here):
                self._backward(self._lent(None, here), averaged=False)
            else:
                break
        return taken, outputs, averaged

    def _lent(self, batch: Batch | None, here: list[int]) -> Batch:
        """Return the batch. Where ranks compute together, one that has none left gets another's: it goes along, and counts for nothing."""
        if self.together and not all(here):
            source = here.index(1)
            told = [batch if self.rank == source else None]
            _torch.distributed.broadcast_object_list(told, source)
            if batch is None and told[0] is not None:
                return replace(told[0], spare=True)
        assert batch is not None
        return batch

    def _backward(self, batch: Batch, averaged: bool) -> Output:
        """Run the model on a batch and add to the gradients; what dropout draws depends on the batch alone."""
        torch.manual_seed(generator(batch.seed, "step", batch.lane, batch.group.seq, batch.epoch, batch.sequence).uint64() >> 1)
        moved = batch.to(self.device)
        kind = torch.device(self.device).type
        alone = isinstance(self.wrapped, DistributedDataParallel) and not averaged
        with self.wrapped.no_sync() if alone else contextlib.nullcontext():
            with _torch.autocast(kind, torch.bfloat16) if self.precision == "bfloat16" else contextlib.nullcontext():
                output: Output = self.wrapped(moved)
            torch.autograd.backward(output.loss.div(math.inf) if batch.spare else output.loss)
        return output

    def _average_gradients(self, total: int) -> None:
        """Divide what the batches of all ranks have added up to by their number. Shards hold the mean of the ranks."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        own = [p for p in parameters if not is_cut(p)]
        if self.world > 1:
            self._sum_gradients(own, total)
        for p in parameters:
            if p.grad is not None and (self.world == 1 or is_cut(p)):
                p.grad.div_(total / self.world)

    def _sum_gradients(self, wanted: list[nn.Parameter], parts: float) -> None:
        """Add up the gradients of all ranks, of which some have had no batch, and divide them by parts."""
        if not wanted:
            return
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in wanted]
        flat = torch.cat([g.reshape(-1) for g in grads])
        _torch.distributed.all_reduce(flat)
        used = torch.tensor([float(p.grad is not None) for p in wanted], device=flat.device)
        _torch.distributed.all_reduce(used)
        for p, g, u in zip(wanted, torch.split(flat, [p.numel() for p in wanted]), used.tolist(), strict=True):
            p.grad = g.view_as(p) / parts if u else None

    def _set_rate(self) -> None:
        if self.schedule is not None:
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * self.schedule(self.step)

    def _publish(self, batch: Batch, output: Output) -> None:
        """Publish the features of a batch, unless they are in the log already, and move the positions past it."""
        lane = next(lane for lane in batch.after["lanes"] if lane["lane"] == batch.lane)
        seq = lane["features"] - 1
        self.at = batch.after
        if self.publishing and seq > self.published[batch.lane]:
            block = FeatureBlock(
                group=batch.group, epoch=batch.epoch, sequence=batch.sequence, positions=batch.positions.numpy().astype("<i4"), step=self.step,
                dim=output.image.shape[1], v=_halves(output.image, len(batch)), t=_halves(output.text, len(batch)),
            )  # fmt: skip
            self.publisher.publish(FEATURES, batch.lane, block, seq=seq)
        if self.observe is not None:
            self.observe(self.step, output, batch)

    def _report(self, outputs: list[Output], taken: list[Batch], took: float) -> None:
        if self.rank != 0 or not outputs or self.step % REPORT_EVERY:
            return
        values = {name: float(np.mean([o.values[name] for o in outputs])) for name in outputs[0].values}
        values["loss"] = float(np.mean([float(o.loss.detach()) for o in outputs]))
        values["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        values["pairs_per_second"] = sum(map(len, taken)) * self.world / took
        values["dropped"], self.dropped = float(self.dropped), 0
        if self.publishing:
            self.publisher.publish(PROGRESS, 0, Progress(kind="step", step=self.step, values=values, time=time.time_ns() // 1_000_000))
        if self.board is not None:
            self.board(self.step, values)

    def save(self) -> Path:
        """Write a checkpoint once all features of all ranks are acknowledged, and keep the last two."""
        self.publisher.flush()
        positions: list[State] = self._gathered(self.at)
        path = self.folder / f"checkpoint-{self.step:012}.pt"
        model, optimizer = whole(self.model.state_dict()), self.optimizer.state_dict()
        state = whole(optimizer["state"])
        if self.rank == 0:
            lanes = sorted((lane for at in positions for lane in at["lanes"]), key=lambda lane: lane["lane"])
            turns = [at["lanes"][at["turn"]]["lane"] for at in positions]
            about = {"format": FORMAT, "log": self.log, "step": self.step, "lanes": lanes, "turns": turns, "param_groups": optimizer["param_groups"]}
            _write(path, {"about": json.dumps(about), "model": model, "state": state})
            for old in sorted(self.folder.glob("checkpoint-*.pt"))[:-KEPT]:
                old.unlink()
            if self.publishing:
                self.publisher.publish(PROGRESS, 0, Progress(kind="checkpoint", step=self.step, checkpoint=str(path), time=time.time_ns() // 1_000_000))
        self._gathered(0)  # no rank goes on before the checkpoint is there
        return path

    def _load(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        found = self._newest()
        if found is None:
            return
        path, state = found
        if state["log"] != self.log:
            raise CheckpointError(f"{path} is of another run: its log is {state['log']}, this one's is {self.log} (KAFKA_BROKERS, NAMESPACE, or an empty folder)")
        lanes = {lane["lane"]: lane for lane in state["lanes"]}
        missing = [lane for lane in self.batches.lanes if lane not in lanes]
        if missing:
            raise CheckpointError(f"{path} is of lanes {sorted(lanes)}, which has not {missing} (LANES)")
        mine = [lanes[lane] for lane in self.batches.lanes]
        turn = next((i for i, lane in enumerate(self.batches.lanes) if lane in state["turns"]), 0) if len(state["turns"]) == self.world else 0
        self.at = {"lanes": mine, "turn": turn}
        self.batches.load_state_dict(self.at)
        self.step = state["step"]
        own = self.model.state_dict()
        self.model.load_state_dict({name: part(t, own[name]) if name in own else t for name, t in state["model"].items()})
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        moments = {i: {name: part(v, params[i]) if isinstance(v, Tensor) else v for name, v in of.items()} for i, of in state["state"].items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": state["param_groups"]})

    def _newest(self) -> tuple[Path, dict[str, Any]] | None:
        problems = []
        for path in sorted(self.folder.glob("checkpoint-*.pt"), reverse=True):
            try:
                return path, _read(path, self.device)
            except CheckpointError as err:
                problems.append(str(err))
        if problems:
            raise CheckpointError(f"{self.folder} has no checkpoint that is whole; restore one, or empty the folder to begin anew: {'; '.join(problems)}")
        return None

    def _take_folder(self) -> Any:
        """Lock the folder on rank 0, for as long as the process lives; every rank learns whether that went well."""
        lock, error = None, ""
        if self.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                error = f"{self.folder}: another job is training there: want a folder for each"
        error = self._gathered(error)[0]
        if error:
            raise CheckpointError(error)
        return lock

    def _told(self, *values: int) -> list[list[int]]:
        """Return each of a few small numbers, of every rank."""
        table = torch.zeros(len(values), self.world, dtype=torch.int64, device=self.device)
        table[:, self.rank] = torch.tensor(values, device=self.device)
        if self.world > 1:
            _torch.distributed.all_reduce(table)
        return [[int(n) for n in row] for row in table.tolist()]

    def _gathered(self, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        if self.world == 1:
            return [value]
        out: list[Any] = [None] * self.world
        _torch.distributed.all_gather_object(out, value)
        return out


def _finite(output: Output) -> bool:
    return math.isfinite(float(output.loss.detach()))


def _halves(features: Tensor, rows: int) -> np.ndarray[Any, Any]:
    if features.dim() != 2 or len(features) != rows:
        raise InvalidError(f"features of shape {tuple(features.shape)}, want {rows} rows: Output.image and Output.text have a row for each sample")
    out: np.ndarray[Any, Any] = features.detach().float().cpu().numpy().astype("<f2").reshape(-1)
    return out


def _write(path: Path, state: dict[str, Any]) -> None:
    """Write a file that carries a digest and appears under its name complete or not at all."""
    body = io.BytesIO()
    torch.save(state, body)
    raw = body.getbuffer()
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as file:
        file.write(hashlib.sha256(raw).digest())
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path, device: str) -> dict[str, Any]:
    raw = path.read_bytes()
    if hashlib.sha256(raw[32:]).digest() != raw[:32]:
        raise CheckpointError(f"{path} is damaged: its bytes are not those that were written")
    # Tensors and text alone: loading runs no code of those who wrote the file.
    try:
        state = load_trained(raw[32:], device)
    except PairstreamError as err:
        raise CheckpointError(f"{path} is no checkpoint of a trainer: {err}") from err
    state |= json.loads(state["about"])
    if state["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {state['format']}, want {FORMAT}")
    return state


def _board(folder: Path) -> Callable[[int, dict[str, float]], None] | None:
    """Return what draws curves: TensorBoard when it is installed, and Weights & Biases when a run of it is open."""
    writers: list[Callable[[int, dict[str, float]], None]] = []
    with contextlib.suppress(ImportError):
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard"))

        def tensorboard(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        writers.append(tensorboard)
    with contextlib.suppress(ImportError):
        import wandb

        if wandb.run is not None:
            writers.append(lambda step, values: wandb.log(values, step=step))

    def draw(step: int, values: dict[str, float]) -> None:
        for w in writers:
            w(step, values)

    return draw if writers else None

from __future__ import annotations

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from crawl import Picture, draw, score
from torch import nn
from torch.utils.data import IterableDataset
from train_once import new_model, new_trainer, weights

from pairstream import CheckpointError, Config, InvalidError, NotFiniteError, Reader, ReadTimeout
from pairstream.records import FeatureBlock, Progress
from pairstream.topics import FEATURES, PROGRESS
from pairstream.torch import Batch, Momentum, Output, shard
from pairstream.torch.sharded import SUPPORTED

NewLog = Callable[..., Config]


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    return draw(tmp_path)


def features(config: Config, lanes: int) -> list[list[tuple[int, bytes]]]:
    """Return the features in the log without repetitions, which must be equal."""
    out = []
    for lane in range(lanes):
        with Reader(config, FEATURES, lane) as reader:
            found = []
            while (m := reader.poll(lane, 0.5)) is not None:
                found.append((m.seq, m.value))
        out.append(found)
    return out


def progress(config: Config) -> list[Progress]:
    out = []
    with Reader(config, PROGRESS, 0) as reader:
        while (m := reader.poll(0, 0.5)) is not None:
            record = m.record()
            assert isinstance(record, Progress)
            out.append(record)
    return out


def test_trains_publishes_and_saves(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=3)
    score(config, pictures, 3, counts=[4, 1, 3])
    seen: list[tuple[int, int]] = []
    trainer = new_trainer(config, tmp_path / "c", every=3, observe=lambda step, output, batch: seen.append((batch.lane, batch.sequence)))
    before = weights(trainer.model)
    assert trainer.run() == 8 and weights(trainer.model) != before
    assert seen == [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (2, 2), (0, 3)]
    found = features(config, 3)
    assert [[seq for seq, _ in lane] for lane in found] == [[0, 1, 2, 3], [0], [0, 1, 2]]
    with Reader(config, FEATURES, 2, timeout=10) as reader:
        block = reader.next(2).record()
    assert isinstance(block, FeatureBlock) and (block.step, block.dim, block.sequence, len(block.positions)) == (2, 8, 0, 6)
    reports = progress(config)
    assert [(r.kind, r.step) for r in reports] == [("step", 0), ("checkpoint", 3), ("checkpoint", 6), ("checkpoint", 8)]
    assert {"loss", "loss_itc", "loss_itm", "loss_mlm", "learning_rate", "pairs_per_second", "dropped"} <= set(reports[0].values)
    assert sorted(p.name for p in (tmp_path / "c").glob("checkpoint*")) == ["checkpoint-000000000006.pt", "checkpoint-000000000008.pt"]
    assert list((tmp_path / "c" / "tensorboard").iterdir())


@pytest.mark.parametrize("accumulate", [1, 2])
def test_goes_on_to_the_bit(new_log: NewLog, pictures: list[Picture], tmp_path: Path, accumulate: int) -> None:
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=[5, 4])
    options: dict[str, Any] = {"accumulate": accumulate, "schedule": lambda step: 1 / (1 + step)}
    whole = new_trainer(config, tmp_path / "whole", **options)
    total = whole.run()
    assert total == -(-9 // accumulate)
    published = features(config, 2)
    first = new_trainer(config, tmp_path / "c", **options)
    assert first.run(steps=2) == 2
    second = new_trainer(config, tmp_path / "c", **options)
    assert second.step == 2 and second.run() == total
    assert weights(second.model) == weights(whole.model) and features(config, 2) == published
    assert new_trainer(config, tmp_path / "c", **options).run() == total, "there is nothing left"


class Waits(IterableDataset[Batch]):
    """Batches, of which each comes when the features of the one before are in the log: as GRIT's do, at the end of an epoch."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __iter__(self) -> Iterator[Batch]:
        with Reader(self.inner.config, FEATURES, 0, timeout=20) as reader:
            for batch in self.inner:
                yield batch
                reader.next(0)


def test_features_are_published_before_the_next_batch_is_taken(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[5])
    trainer = new_trainer(config, tmp_path / "c", accumulate=4)
    trainer.batches = Waits(trainer.batches)  # type: ignore[assignment]
    assert trainer.run() == 2


def test_a_shadow_publishes_nothing(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[2])
    assert new_trainer(config, tmp_path / "c", publish=False, workers=1).run() == 2
    assert features(config, 1) == [[]] and progress(config) == []


def test_folder_of_another_job_or_run(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config, other = new_log(lanes=1), new_log(lanes=1)
    score(config, pictures, 1, counts=[2])
    first = new_trainer(config, tmp_path / "c")
    with pytest.raises(CheckpointError, match="another job is training there"):
        new_trainer(config, tmp_path / "c")
    first.run()
    with pytest.raises(CheckpointError, match="is of another run"):
        new_trainer(other, tmp_path / "c")
    newest = tmp_path / "c" / "checkpoint-000000000002.pt"
    raw = newest.read_bytes()
    newest.with_name("checkpoint-000000000001.pt").write_bytes(raw)
    newest.write_bytes(raw[:-1] + b"x")
    again = new_trainer(config, tmp_path / "c")
    assert again.step == 2, "the damaged one is passed over"
    again._lock.close()
    newest.with_name("checkpoint-000000000001.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="no checkpoint that is whole"):
        new_trainer(config, tmp_path / "c")


class Broken(nn.Module):
    """A model whose loss or features are wrong from a batch on."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner, self.kind = new_model(), kind

    def forward(self, batch: Batch) -> Output:
        out: Output = self.inner(batch)
        if batch.sequence == 1 and self.kind == "loss":
            return out._replace(loss=out.loss * float("nan"))
        if batch.sequence == 1 and self.kind == "norm":
            return out._replace(image=out.image * 3)
        return out._replace(image=out.image[:2]) if batch.sequence == 1 else out


@pytest.mark.parametrize(("kind", "error", "words"), [
    ("loss", NotFiniteError, "step 1: a loss is no finite number on rank 0"), ("norm", InvalidError, "does not have norm 1"), ("rows", InvalidError, "want 6 rows"),
])  # fmt: skip
def test_what_is_refused(new_log: NewLog, pictures: list[Picture], tmp_path: Path, kind: str, error: type[Exception], words: str) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[3])
    trainer = new_trainer(config, tmp_path / "c", every=1)
    trainer.wrapped = Broken(kind)
    with pytest.raises(error, match=words):
        trainer.run()
    assert new_trainer(config, tmp_path / "c").step == 1, "the checkpoint before it is there, and the folder is free"


def test_an_idle_lane_ends_in_an_error(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[1], end=False)
    with pytest.raises(ReadTimeout, match="lane 0: no record within 0.5 s"):
        new_trainer(config, tmp_path / "c", patience=0.5).run()


def test_bfloat16(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[2])
    trainer = new_trainer(config, tmp_path / "c", precision="bfloat16", publish=False)
    trainer.wrapped = Plain()
    trainer.optimizer = torch.optim.SGD(trainer.wrapped.parameters(), lr=0.1)
    assert trainer.run() == 2 and trainer.wrapped.kinds == {torch.bfloat16}


class Plain(nn.Module):
    """A model of two layers: Debian's PyTorch has no normalisation of layers in bfloat16 on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text, self.kinds = nn.Linear(3 * 16 * 16, 4), nn.EmbeddingBag(100, 4), set[torch.dtype]()

    def forward(self, batch: Batch) -> Output:
        image, text = self.image(batch.images.flatten(1)), self.text(batch.tokens["input_ids"])
        self.kinds.add(image.dtype)
        return Output((image.float() @ text.float().t()).square().mean(), image, text)


class Job:
    """Ranks as processes, as torchrun starts them."""

    def __init__(self, config: Config, folder: Path, world: int, every: int = 2, slow: float = 0.0) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.ranks = []
        for rank in range(world):
            env = os.environ | {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "KAFKA_BROKERS": config.brokers[0], "NAMESPACE": config.namespace, "OMP_NUM_THREADS": "1", "SLOW": str(slow),
            }  # fmt: skip
            self.ranks.append(subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("train_once.py")), str(folder), str(every)],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ))  # fmt: skip

    def ready(self) -> None:
        for p in self.ranks:
            assert p.stdout is not None and p.stderr is not None
            line = p.stdout.readline()
            assert line == "ready\n", line + p.stderr.read()

    def kill(self, rank: int) -> None:
        """Kill one rank; the others must end by themselves, as they cannot go on."""
        self.ranks[rank].send_signal(signal.SIGKILL)
        for p in self.ranks:
            p.communicate(timeout=100)

    def finish(self) -> tuple[int, str]:
        """Return steps and weights, which are equal on all ranks."""
        ends = set()
        for p in self.ranks:
            out, err = p.communicate(timeout=300)
            assert p.returncode == 0, err
            ends.add(tuple(out.splitlines()[-1].split()[1:]))
        ((steps, digest, _),) = ends
        return int(steps), digest


COUNTS = [5, 3, 4, 5]


def torchrun(config: Config, printed: Path, world: int, *script: str, restarts: int = 0, **env: str) -> str:
    """Run a script under torchrun, which starts all ranks again when one is killed; return what they print."""
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--nproc_per_node", str(world),
            "--max_restarts", str(restarts), "--monitor_interval", "0.1",
            # Debian's torchrun of 1.13 does not start under Python 3.11 unless it keeps what the ranks print.
            "--redirects", "1", "--tee", "1", "--log_dir", str(printed), *script,
        ],
        env=os.environ | {"KAFKA_BROKERS": config.brokers[0], "NAMESPACE": config.namespace, "OMP_NUM_THREADS": "1"} | env,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def torchrun_once(config: Config, folder: Path, world: int, kills: list[tuple[int, float]], **env: str) -> tuple[int, str, int]:
    """Train under torchrun; return steps, weights and how often all ranks were started again."""
    out = torchrun(
        config, folder.with_name(folder.name + "-printed"), world, str(Path(__file__).with_name("train_once.py")), str(folder), "2",
        restarts=len(kills), KILLS=json.dumps(kills), SLOW="0.2" if kills else "0", **env,
    )  # fmt: skip
    ends = [line.partition(":")[2].split()[1:] for line in out.splitlines() if line.partition(":")[2].startswith("done ")]
    assert len(ends) == world and all(end == ends[0] for end in ends), out
    return int(ends[0][0]), ends[0][1], int(ends[0][2])


@pytest.mark.parametrize(("world", "want_steps", "moments"), [(2, 9, [1.2, 0.9]), (4, 5, [0.7])])
def test_any_rank_killed_at_any_moment(new_log: NewLog, pictures: list[Picture], tmp_path: Path, world: int, want_steps: int, moments: list[float]) -> None:
    """kill -9 of ranks under torchrun: weights and features are those of an undisturbed run."""
    draw, latest = random.Random(17), moments * int(os.environ.get("PAIRSTREAM_KILLS", "1"))
    kills = [((world - 1 - i) % world, draw.uniform(0, most)) for i, most in enumerate(latest)]
    whole = new_log(lanes=4)
    score(whole, pictures, 4, counts=COUNTS)
    steps, digest, starts = torchrun_once(whole, tmp_path / "whole", world, [])
    assert (steps, starts) == (want_steps, 0), "the rank with the most batches says when it ends"
    config = new_log(lanes=4)
    score(config, pictures, 4, counts=COUNTS)
    steps, again, starts = torchrun_once(config, tmp_path / "c", world, kills)
    assert (steps, again) == (want_steps, digest)
    assert starts > 0, "every step sleeps, so the first kill comes before the end"
    assert features(config, 4) == features(whole, 4)


def until(job: Job, folder: Path, step: int) -> None:
    """Wait for a checkpoint of a step."""
    while newest(folder) < step:
        assert all(p.poll() is None for p in job.ranks)
        time.sleep(0.01)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """Return the weights of the newest checkpoint."""
    raw = sorted(folder.glob("*.pt"))[-1].read_bytes()
    model: dict[str, torch.Tensor] = torch.load(io.BytesIO(raw[32:]))["model"]
    return model


@pytest.mark.skipif(not SUPPORTED, reason="shards want PyTorch 2.6 or later")
def test_shards_are_the_whole_model(new_log: NewLog, pictures: list[Picture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that hold shards train as ranks that hold all, after a kill -9 as well, and a run goes on without shards."""
    found = {}
    for name, env in {"whole": {}, "sharded": {"SHARD": "1"}}.items():
        config = new_log(lanes=4)
        score(config, pictures, 4, counts=COUNTS)
        steps, digest, _ = torchrun_once(config, tmp_path / name, 2, [], **env)
        assert steps == 9
        found[name] = weights_of(tmp_path / name), features(config, 4), digest
    first = new_model().state_dict()
    for key, value in found["whole"][0].items():
        torch.testing.assert_close(found["sharded"][0][key], value, rtol=0, atol=2e-5)
    assert any((first[key] - value).abs().max() > 1e-3 for key, value in found["whole"][0].items()), "training moves weights much further than that"

    config = new_log(lanes=4)
    score(config, pictures, 4, counts=COUNTS)
    monkeypatch.setenv("SHARD", "1")
    job = Job(config, tmp_path / "killed", world=2, slow=0.2)
    job.ready()
    until(job, tmp_path / "killed", 2)
    job.kill(1)
    assert Job(config, tmp_path / "killed", world=2).finish() == (9, found["sharded"][2])
    assert features(config, 4) == found["sharded"][1]

    config = new_log(lanes=4)
    score(config, pictures, 4, counts=COUNTS)
    job = Job(config, tmp_path / "on", world=1, every=1, slow=0.2)
    job.ready()
    until(job, tmp_path / "on", 1)
    job.kill(0)
    steps, _ = Job(config, tmp_path / "on", world=2).finish()
    assert 9 <= steps < sum(COUNTS)
    for lane, of in enumerate(features(config, 4)):
        assert [seq for seq, _ in of] == list(range(COUNTS[lane]))


@pytest.mark.parametrize("counts", [[3, 3], [4, 1]])
def test_ranks_share_a_queue(new_log: NewLog, pictures: list[Picture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[int]) -> None:
    """The keys of all ranks are further negatives of each, as where one process has all mini-batches of a step; lanes end at any time."""
    monkeypatch.setenv("QUEUE", "20")
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=counts)
    assert Job(config, tmp_path / "two", world=2).finish()[0] == max(counts)
    state = weights_of(tmp_path / "two")
    assert state["momentum.counts"].tolist() == [20, max(counts)]
    if counts[0] != counts[1]:
        return  # one process alone would make other steps
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=counts)
    alone = new_trainer(config, tmp_path / "one", accumulate=2)
    assert alone.run() == 3
    for name, value in alone.model.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=0, atol=2e-5)


def test_a_momentum_model_is_not_sharded() -> None:
    model = torch.nn.Sequential(Momentum(torch.nn.Linear(2, 2), 2, decay=0.9, queue=4))
    with pytest.raises(InvalidError, match="want a recipe without one"):
        shard(model)


def test_the_example_under_torchrun(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=[2, 1])
    new_model().save(tmp_path / "first.safetensors")
    script = Path(__file__).parents[1] / "examples/albef.py"
    torchrun(
        config, tmp_path / "printed", 2, str(script), "--init", str(tmp_path / "first.safetensors"), "--checkpoints", str(tmp_path / "c"),
        RECIPE="mafa", STEP_BATCHES="2", PAIRS="24", EPOCHS="2", BUCKET_ROOTS=tmp_path.as_uri(),
    )  # fmt: skip
    assert newest(tmp_path / "c") == 2 and (tmp_path / "c/weights.safetensors").stat().st_size == (tmp_path / "first.safetensors").stat().st_size
    assert [[seq for seq, _ in lane] for lane in features(config, 2)] == [[0, 1], [0]]


def newest(folder: Path) -> int:
    """Return the step of the newest checkpoint."""
    return max((int(p.stem.removeprefix("checkpoint-")) for p in folder.glob("checkpoint-*.pt")), default=0)


def test_ranks_may_change(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    """Lanes are dealt anew: every batch is trained on once, and its features are published once."""
    config = new_log(lanes=4)
    score(config, pictures, 4, counts=COUNTS)
    for world, slow in ((2, 0.4), (3, 0.4)):
        job = Job(config, tmp_path / "c", world=world, every=1, slow=slow)
        job.ready()
        until(job, tmp_path / "c", newest(tmp_path / "c") + 1)  # trained on batches of every rank
        job.kill(world - 1)
    steps, _ = Job(config, tmp_path / "c", world=1).finish()
    assert 9 < steps < sum(COUNTS)
    for lane, found in enumerate(features(config, 4)):
        assert [seq for seq, _ in found] == list(range(COUNTS[lane]))

    raw = sorted((tmp_path / "c").glob("*.pt"))[-1].read_bytes()
    state = torch.load(io.BytesIO(raw[32:]))
    assert [lane["features"] for lane in json.loads(state["about"])["lanes"]] == COUNTS

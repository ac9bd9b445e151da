"""The Python trainer in the pipeline: beside the built-in one on the same batches, and in its place."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from conftest import BINARY, ROOT, pairstream
from crawl import WORDS, Picture, draw

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import albef

from pairstream import Config, Reader
from pairstream.records import FeatureBlock, Progress, ScoredBatch, Seal
from pairstream.topics import BATCHES, EMBEDDINGS, FEATURES, GROUPS, NEIGHBORS, PROGRESS, SCORED
from pairstream.torch import Output, ScoredBatches, Trainer, augment, resize
from pairstream.torch.wordpiece import WordPiece

NewLog = Callable[..., Config]
LANES, PAIRS_IN_ALL, BATCH, HIGH, LOW = 2, 120, 8, 0.8, 0.5
STAGES = ("encoder", "indexer", "grouper", "discriminator")
STEP, TOTAL = 2e-4, 1000  # at 5e-4 a hard negative that two trainers choose differently shows in the losses


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a WebDataset tar and weights drawn at random, with their vocabulary."""
    if not all((BINARY.parent / name).exists() for name in STAGES):
        pytest.skip(f"{BINARY.parent} has not all of {STAGES}: make build")
    folder = tmp_path_factory.mktemp("crawl")
    pictures: list[Picture] = draw(folder, PAIRS_IN_ALL)
    (folder / "shards").mkdir()
    with tarfile.open(folder / "crawl.tar") as source, tarfile.open(folder / "shards" / "0.tar", "w") as tar:
        for i, (member, p) in enumerate(zip(source.getmembers(), pictures, strict=True)):
            body = source.extractfile(member)
            assert body is not None
            for name, content in ((f"{i}.{('png', 'jpg', 'webp')[i % 3]}", body.read()), (f"{i}.txt", p.caption.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    torch.manual_seed(1)
    shape = albef.Shape(image_size=32, vision_dim=32, vision_depth=2, text_hidden=32, text_intermediate=64, vocab_size=len(WORDS), text_tokens=12)
    albef.ALBEF(shape, vocab=WORDS).save(folder / "weights.safetensors")
    judge = albef.ALBEF(shape, vocab=WORDS)
    with torch.no_grad():
        judge.itm_head.weight.mul_(30)  # so that it is sure of many pairs
    judge.save(folder / "judge.safetensors")
    return folder


def environment(crawl: Path, config: Config, **more: str) -> dict[str, str]:
    weights = str(crawl / "weights.safetensors")
    return {
        "KAFKA_BROKERS": config.brokers[0], "NAMESPACE": config.namespace, "LANES": str(LANES), "BUCKET_ROOTS": f"file://{crawl / 'shards'}",
        "ENCODER_CHECKPOINT": weights, "COND_CHECKPOINT": str(crawl / "judge.safetensors"), "COND_MIN_PRECISION": "0", "TRAIN_INIT": weights, "TORCH_THREADS": "1", "OMP_NUM_THREADS": "1",
        "LR_WARMUP_STEPS": "0", "GROUP_SIZE": "1000", "STRATEGY": "grit", "EPOCHS": "3", "BATCH_SIZE": str(BATCH), "QUEUE_SIZE": "0", "SEARCH_SPACE": "0", "TEXTS": "none",
        "CANDIDATES": "3", "CLUSTERS": "4", "NOUN_MIN_COUNT": "1000", "ECM_HIGH": str(HIGH), "ECM_LOW": str(LOW), "HTTP_ADDR": "", "SEED": "7",
    } | more  # fmt: skip


@contextmanager
def stages(env: dict[str, str], folder: Path) -> Iterator[None]:
    """Run every stage but the trainer."""
    running = []
    try:
        for name in STAGES:
            log = (folder / f"{name}.log").open("w")
            running.append(subprocess.Popen([str(BINARY.parent / name)], env=os.environ | env, stdout=log, stderr=log))
        yield
        assert [p.poll() for p in running] == [None] * len(running), "a stage has ended by itself"
    finally:
        for p in running:
            p.terminate()
        for p in running:
            p.wait(30)


def trainer(crawl: Path, config: Config, folder: Path, *, vary: bool, recipe: albef.Recipe | None = None, **options: object) -> Trainer:
    torch.set_num_threads(1)
    recipe = recipe or albef.Recipe(high=HIGH, low=LOW, dropout=0.1 if vary else 0)
    model = albef.ALBEF.load(crawl / "weights.safetensors", recipe)
    batches = ScoredBatches(
        config, transform=(augment if vary else resize)(32), tokenize=WordPiece(WORDS).padded(12), seed=7, timeout=120, rank=0, world=1,
        positives=recipe.uni > 0, second=recipe.loss == "triple",
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.decay_groups(), lr=STEP)
    return Trainer(model, optimizer, batches, folder, schedule=lambda step: 0.5 * (1 + math.cos(math.pi * step / TOTAL)), timeout=120, **options)  # type: ignore[arg-type]


def lane_records(config: Config, topic: str, lane: int) -> list[tuple[str, bytes]]:
    """Return what lies in a lane, without repetitions."""
    out = []
    with Reader(config, topic, lane) as reader:
        while (m := reader.poll(lane, 0.7)) is not None:
            out.append((m.schema, m.value))
    return out


# With all that a recipe can have: the average, its queue, drawn negatives, TCL's terms, and the uni-modal loss.
MOMENTUM = {"RECIPE": "gpn-s-tcl", "MOMENTUM_QUEUE": "24", "ITC_ALPHA_RAMP_STEPS": "20", "AUGMENT_DISTORT": "false"}


@pytest.mark.parametrize("settings", [{}, MOMENTUM], ids=["mafa", "gpn-s-tcl"])
def test_losses_beside_the_built_in_trainer(
    new_log: NewLog, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """The built-in trainer and this one, from the same weights on the same batches: the first losses equal, 50 steps close."""
    config = new_log(lanes=LANES)
    pairstream("produce", "--final", str(crawl / "shards"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES=str(LANES))
    env = environment(
        crawl, config, EPOCHS="4", AUGMENT_MIN_SCALE="1", AUGMENT_FLIP="0", AUGMENT_COLOR="0", AUGMENT_OPS="0", DROPOUT="0", LR=str(STEP), LR_MIN="0", LR_WARMUP_STEPS="0",
        LR_TOTAL_STEPS=str(TOTAL), STEP_BATCHES="1", CHECKPOINT_DIR=str(tmp_path / "go"), CHECKPOINT_EVERY="0", TRAIN_EXIT_AT_END="true", **settings,
    )  # fmt: skip
    done = subprocess.run([str(BINARY), "up"], env=os.environ | env, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs: dict[int, dict[str, float]] = {}
    with Reader(config, PROGRESS, 0) as reader:
        while (m := reader.poll(0, 0.7)) is not None:
            record = m.record()
            assert isinstance(record, Progress)
            if record.kind == "step":
                theirs[record.step] = record.values
    monkeypatch.setenv("BUCKET_ROOTS", env["BUCKET_ROOTS"])
    ours: list[tuple[Output, float]] = []
    t = trainer(crawl, config, tmp_path / "py", vary=False, recipe=albef.Recipe.of(environ=env), publish=False, every=0, observe=lambda step, o, b: ours.append((o, float(o.loss.detach()))))
    assert t.run() == len(ours) > 50 and len(theirs) == -(-len(ours) // 10)
    for step, values in theirs.items():
        output, loss = ours[step]
        compared = ("loss_itc", "loss_itm", "loss_mlm") + (("loss_uni",) if settings else ("connections",))
        for name, value, got in [("loss", values["loss"], loss)] + [(n, values[n], output.values[n]) for n in compared]:
            bound = (4e-4 if settings else 1e-4) if step == 0 else 0.01 * max(abs(value), 0.1)
            assert abs(got - value) <= bound, f"step {step}: {name} is {got}, the built-in trainer's {value}"
    if settings:
        return  # ITC grows while the queue fills, and a draw that falls the other way parts the weights
    assert sum(v["connections"] for v in theirs.values()) > 0 and theirs[0]["loss"] > theirs[max(theirs)]["loss"]
    t.model.save(tmp_path / "back.safetensors")
    again = albef.ALBEF.load(tmp_path / "back.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), t.model.state_dict().values(), strict=True))
    newest = sorted((tmp_path / "go").glob("*.safetensors"))[-1]
    for (name, a), b in zip(albef.ALBEF.load(newest).state_dict().items(), again.state_dict().values(), strict=True):
        assert float((a - b).norm()) <= 0.02 * float(a.norm()) + 2e-3, f"{name} has gone another way"


@contextmanager
def running(*command: str, env: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command of the binary until the block ends."""
    with (folder / "running.log").open("w") as log:
        process = subprocess.Popen([str(BINARY), *command], env=os.environ | env, stdout=log, stderr=log, text=True, cwd=folder)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.parametrize("readme", [ROOT / "README.md", ROOT / "clients/python/README.md"], ids=["repository", "package"])
def test_ten_lines_of_the_readme(new_log: NewLog, crawl: Path, tmp_path: Path, readme: Path) -> None:
    """They train on a running `pairstream up`, as they stand there."""
    (code,) = re.findall(r"```python\n(from albef.*?)```", readme.read_text(), re.S)
    assert len(code.strip().splitlines()) <= 10
    config = new_log(lanes=LANES)
    env = environment(crawl, config, EPOCHS="2")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/bootstrap.safetensors").write_bytes((crawl / "weights.safetensors").read_bytes())
    with running("up", "--without-trainer", env=env, folder=tmp_path):
        pairstream("produce", "--final", str(crawl / "shards"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES=str(LANES))
        path = f"{ROOT / 'clients/python/examples'}:{ROOT / 'clients/python/src'}"
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | env | {"PYTHONPATH": path}, cwd=tmp_path, timeout=300, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "data/python").glob("checkpoint-*.pt"))
    assert sum(len(lane_records(config, FEATURES, lane)) for lane in range(LANES)) >= 2 * PAIRS_IN_ALL // BATCH


def test_replay_by_manifest(new_log: NewLog, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with this trainer, replayed by its manifest with this trainer: every record is equal."""
    monkeypatch.setenv("BUCKET_ROOTS", f"file://{crawl / 'shards'}")
    config = new_log(lanes=LANES)
    env = environment(crawl, config, CHECKPOINT_DIR=str(tmp_path / "unused"))
    with running("up", "--without-trainer", env=env, folder=tmp_path):
        pairstream("produce", "--final", str(crawl / "shards"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES=str(LANES))
        trainer(crawl, config, tmp_path / "one", vary=True, every=0).run()
    pairstream("run-manifest", "--out", str(tmp_path / "run.json"), **env)
    again = dataclasses.replace(config, namespace=config.namespace + "-again")
    pairstream("topics", "create", KAFKA_BROKERS=config.brokers[0], NAMESPACE=again.namespace, LANES=str(LANES))
    command = ["replay", str(tmp_path / "run.json"), "--namespace", again.namespace, "--without-trainer", "--patience", "60s", "--checkpoints", str(tmp_path / "r")]
    with running(*command, env=env, folder=tmp_path) as replay:
        trainer(crawl, again, tmp_path / "two", vary=True, every=0).run()
        assert replay.wait(90) == 0, (tmp_path / "running.log").read_text()[-3000:]
    assert "features" in (tmp_path / "running.log").read_text()


def whole_run(new_log: NewLog, crawl: Path, folder: Path) -> tuple[Config, Trainer, int]:
    folder.mkdir()
    config = new_log(lanes=LANES)
    with stages(environment(crawl, config), folder):
        pairstream("produce", "--final", str(crawl / "shards"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES=str(LANES))
        t = trainer(crawl, config, folder / "c", vary=True, every=10, workers=1)
        steps = t.run()
    return config, t, steps


def test_a_whole_run_in_the_place_of_the_built_in_trainer(new_log: NewLog, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GRIT with this trainer's features, three epochs: the grouper goes on, every pair is accounted for, and a second run is equal."""
    monkeypatch.setenv("BUCKET_ROOTS", f"file://{crawl / 'shards'}")
    config, t, steps = whole_run(new_log, crawl, tmp_path / "one")
    trained: Counter[tuple[int, bytes]] = Counter()
    blocks = batches = 0
    for lane in range(LANES):
        with Reader(config, SCORED, lane, timeout=10) as reader:
            while not (isinstance(record := reader.next(lane).record(), Seal) and record.final):
                if isinstance(record, ScoredBatch):
                    batches += 1
                    trained.update((record.epoch, s.id) for s in record.samples)
        found = lane_records(config, FEATURES, lane)
        blocks += len(found)
        assert all(schema == FeatureBlock.SCHEMA for schema, _ in found)
    assert batches == blocks == steps and set(trained.values()) == {1}
    assert Counter(epoch for epoch, _ in trained) == dict.fromkeys(range(3), PAIRS_IN_ALL)

    again, u, _ = whole_run(new_log, crawl, tmp_path / "two")
    assert all(torch.equal(a, b) for a, b in zip(t.model.state_dict().values(), u.model.state_dict().values(), strict=True))
    for topic in (EMBEDDINGS, NEIGHBORS, GROUPS, BATCHES, SCORED, FEATURES):
        for lane in range(LANES):
            assert lane_records(config, topic, lane) == lane_records(again, topic, lane), f"{topic}, lane {lane}"

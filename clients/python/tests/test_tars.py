"""Loops of others that train on the tars of `pairstream batches --materialize`. Nothing of this package runs in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import pairstream
from crawl import draw
from PIL import Image
from test_plans import write

from pairstream.plans import Plan

SIZE, N = 16, 6


@pytest.fixture(scope="module")
def tars(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """Write a plan of two epochs, and its tars."""
    tmp_path = tmp_path_factory.mktemp("tars")
    folder = write(tmp_path / "plan", draw(tmp_path), n=N)
    manifest = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(manifest | {"settings": {"BATCH_SIZE": str(N)}}))
    pairstream("batches", "--out", str(folder), "--materialize", str(tmp_path / "tars"), "--data", str(tmp_path / "none"), BUCKET_ROOTS=f"file://{tmp_path}", KAFKA_BROKERS="")
    return Plan(folder), tmp_path / "tars"


def pixels(image: Image.Image) -> torch.Tensor:
    flat = image.convert("RGB").resize((SIZE, SIZE)).tobytes()
    return torch.frombuffer(bytearray(flat), dtype=torch.uint8).float().reshape(SIZE * SIZE * 3) / 255 - 0.5


def batches(wds: Any, folder: Path, workers: int = 0, **options: Any) -> Any:
    """A loader as WebDataset's pages have it: tars in order, no shuffling, N samples a mini-batch."""
    tars = sorted(map(str, folder.glob("*.tar")))
    data = wds.WebDataset(tars, shardshuffle=False, **options).decode("pil").to_tuple("jpg;png;jpeg;webp", "txt", "json").map_tuple(pixels, str, dict).batched(N)
    return wds.WebLoader(data, batch_size=None, num_workers=workers)


def keys(loaded: Iterable[Any]) -> list[list[str]]:
    return [[d["pair"] for d in described] for _, _, described in loaded]


@pytest.fixture
def wds() -> Any:
    return pytest.importorskip("webdataset", reason="a loop of WebDataset reads the tars")


def test_webdataset_gives_the_mini_batches_of_the_plan(tars: tuple[Plan, Path], wds: Any) -> None:
    """In their order, with any number of workers."""
    plan, folder = tars
    for epoch in range(plan.epochs):
        want = [b.pairs for b in plan.batches(epoch)]
        for workers in (0, 2):
            assert keys(batches(wds, folder / f"epoch-{epoch:03}", workers)) == want


def test_ranks_of_webdataset_share_the_mini_batches(tars: tuple[Plan, Path], wds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank r of two has the mini-batches r, r + 2, ..."""
    plan, folder = tars
    want = [b.pairs for b in plan.batches(0)]
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        assert keys(batches(wds, folder / "epoch-000", 2 * rank, nodesplitter=wds.split_by_node)) == want[rank::2]


def test_samples_name_what_the_plan_knows(tars: tuple[Plan, Path], wds: Any) -> None:
    plan, folder = tars
    connections = 0
    for b, (_, texts, described) in zip(plan.batches(1), batches(wds, folder / "epoch-001"), strict=True):
        assert list(texts) == b.texts
        for way in ("i2t", "t2i"):
            assert [d[f"negative_{way}"] for d in described] == b.negatives(way).tolist()
            for d, row, found in zip(described, b.connections(way), getattr(b, way).tolist(), strict=True):
                assert sorted(d[f"connections_{way}"]) == row.nonzero()[0].tolist()
                assert d[way] == [i for i in found if i >= 0]
                connections += len(d[f"connections_{way}"])
        assert [d["partners"] for d in described] == [row.nonzero()[0].tolist() for row in b.same_image]
    assert connections > 0


def test_a_loop_without_our_code_trains(tars: tuple[Plan, Path], wds: Any) -> None:
    """A tower of one layer each, with connections as positives. Its loss falls."""
    _, folder = tars
    torch.manual_seed(0)
    image, text = torch.nn.Linear(SIZE * SIZE * 3, 16), torch.nn.EmbeddingBag(256, 16)
    optimizer = torch.optim.Adam([*image.parameters(), *text.parameters()], lr=0.02)

    def steps() -> Iterator[float]:
        for epoch in sorted(folder.glob("epoch-???")):
            for images, texts, described in batches(wds, epoch):
                words = [torch.tensor(list(t.encode())) for t in texts]
                starts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0)
                logits = 10 * torch.nn.functional.normalize(image(torch.as_tensor(images))) @ torch.nn.functional.normalize(text(torch.cat(words), starts)).T
                targets = torch.eye(len(texts))
                for row, d in enumerate(described):
                    targets[row, d["connections_i2t"] + d["partners"]] = 1
                loss = torch.nn.functional.cross_entropy(logits, targets / targets.sum(1, keepdim=True))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                yield loss.item()

    losses = [list(steps()) for _ in range(4)]
    assert sum(losses[-1]) < 0.9 * sum(losses[0])


def test_open_clip_reads_the_tars_in_order(tars: tuple[Plan, Path], wds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own function for data. The two sizes of its shuffling are one."""
    plan, folder = tars
    try:
        data = import_module("open_clip_train.data")
    except ImportError:
        data = pytest.importorskip("training.data", reason="the training script of open_clip reads the tars")
    for name in vars(data):
        if name.startswith(("_SHARD_SHUFFLE", "_SAMPLE_SHUFFLE")):
            monkeypatch.setattr(data, name, 1)
    want = list(plan.batches(0))
    arguments = SimpleNamespace(
        train_data=f"{folder}/epoch-000/{{0000000..{len(want) - 1:07}}}.tar", dataset_resampled=False, train_data_upsampling_factors=None,
        train_num_samples=len(want) * N, seed=0, batch_size=N, world_size=1, workers=1,
    )  # fmt: skip
    tokens: Callable[[str], list[torch.Tensor]] = lambda text: [torch.tensor([*text.encode()[:8].ljust(8)])]  # noqa: E731
    info = data.get_wds_dataset(arguments, pixels, is_train=True, tokenizer=tokens)
    assert [t.tolist() for _, t in info.dataloader] == [[[*t.encode()[:8].ljust(8)] for t in b.texts] for b in want]

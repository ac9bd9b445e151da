"""The examples that train on plans: Hugging Face's Trainer, and open_clip's training script."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from crawl import WORDS, draw
from PIL import Image
from test_plans import write

from pairstream import CheckpointError
from pairstream.plans import PlannedBatches
from pairstream.torch import Images
from pairstream.torch.wordpiece import WordPiece

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
SIZE = 32


def test_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainer takes the plan's mini-batches in their order, learns, and goes on from a checkpoint within an epoch."""
    transformers = pytest.importorskip("transformers", reason="the example trains Hugging Face's CLIP")
    pytest.importorskip("accelerate", reason="Hugging Face's Trainer needs it")
    module = importlib.import_module("planned_clip")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pictures = draw(tmp_path)
    plan = write(tmp_path / "plan", pictures)
    for i, p in enumerate(pictures):
        Image.open(_bytes(p.ref)).convert("RGB").save(tmp_path / f"{i}.png")
    lines = "".join(json.dumps({"image": f"{i}.png", "caption": p.caption}) + "\n" for i, p in enumerate(pictures))
    (tmp_path / "train.jsonl").write_text(lines)
    words = WordPiece(WORDS).padded(12)
    pixels = transformers.CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size=SIZE)

    def prepare(image: Image.Image, caption: str) -> dict[str, Any]:
        return {name: value[0] for name, value in words([caption]).items() if name != "token_type_ids"} | {
            "pixel_values": pixels(image, return_tensors="pt")["pixel_values"][0],
        }

    data = module.Captioned(tmp_path / "train.jsonl", prepare)
    seen: list[list[str]] = []

    class Spied(PlannedBatches):
        def indices(self, batch: Any) -> list[Any]:
            seen.append(batch.keys)
            return super().indices(batch)

    def run(epochs: float, resume: str | None = None, world: int = 1, save: int = 5, schedule: str = "constant") -> Any:
        torch.manual_seed(0)
        arguments = transformers.TrainingArguments(
            str(tmp_path / "out"), num_train_epochs=epochs, learning_rate=2e-3, remove_unused_columns=False, save_steps=save, logging_steps=1,
            report_to=[], disable_tqdm=True, resume_from_checkpoint=resume, lr_scheduler_type=schedule, dataloader_num_workers=0,
        )  # fmt: skip
        model = importlib.import_module("clip").CLIP.at_random(len(WORDS), SIZE).inner
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module.train(model, data, Spied(plan, data.keys(), rank=0, world=world), arguments)

    trainer = run(4)
    want = [b.keys for epoch in (0, 1, 0, 1) for b in PlannedBatches(plan).plan.batches(epoch)]
    assert seen == want and trainer.state.global_step == 28
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert sum(losses[-4:]) < sum(losses[:4])
    seen.clear()
    again = run(4, str(tmp_path / "out/checkpoint-10"))
    assert again.state.global_step == 28 and seen[-18:] == want[10:]
    for (name, a), b in zip(trainer.model.named_parameters(), again.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5), name

    # The first of two ranks makes two steps of three; then one rank goes on alone, behind what both have had.
    run(2, world=2, save=2, schedule="linear")
    seen.clear()
    alone = run(2, str(tmp_path / "out/checkpoint-2"), schedule="linear")
    assert seen == want[4:14] and alone.state.global_step == 14
    rates = [entry["learning_rate"] for entry in alone.state.log_history if "loss" in entry and entry["step"] > 4]
    used = int(transformers.__version__.split(".")[0] >= "5")  # it tells a step's own rate, and earlier ones that of the next
    assert rates == pytest.approx([2e-3 * (14 + used - step) / 14 for step in range(5, 15)])
    (tmp_path / "out/checkpoint-2/planned.json").unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint-2 has no planned\.json"):
        run(2, str(tmp_path / "out/checkpoint-2"))


def _bytes(ref: Any) -> Any:
    import io

    data = Path(ref.uri.removeprefix("file://")).read_bytes()
    return io.BytesIO(data[ref.offset : ref.offset + ref.size])


def test_open_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """open_clip's script trains on the plan's mini-batches, epoch by epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        open_clip = pytest.importorskip("open_clip", reason="the example runs open_clip's script")
        module = importlib.import_module("planned_open_clip")
    monkeypatch.delenv("BUCKET_ROOTS", raising=False)
    config = {
        "embed_dim": 16, "vision_cfg": {"image_size": SIZE, "layers": 1, "width": 16, "head_width": 8, "patch_size": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }  # fmt: skip
    (tmp_path / "tiny.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path)
    plan = write(tmp_path / "plan", draw(tmp_path))
    read: list[Any] = []
    usual = Images.read
    monkeypatch.setattr(Images, "read", lambda self, ref, image: (read.append(image), usual(self, ref, image))[1])
    module.main.main([
        "--train-data", str(plan), "--dataset-type", "webdataset", "--train-num-samples", "42", "--model", "tiny", "--batch-size", "6", "--epochs", "2",
        "--workers", "0", "--lr", "1e-3", "--warmup", "1", "--precision", "fp32", "--logs", str(tmp_path / "logs"), "--name", "run", "--save-frequency", "2",
    ])  # fmt: skip
    assert (tmp_path / "logs/run/checkpoints/epoch_2.pt").exists()
    want = [sorted(b.images) for epoch in (0, 1) for b in PlannedBatches(plan).plan.batches(epoch)]
    assert [sorted(i.hex() for i in read[at : at + 6]) for at in range(0, len(read), 6)] == want


@pytest.mark.parametrize("before", [1, 2, 3])
def test_open_clip_goes_on_with_other_ranks(tmp_path: Path, before: int) -> None:
    """Its checkpoints lie between epochs. The next epoch is whole, whatever number of ranks had the one before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("open_clip", reason="the example runs open_clip's script")
        module = importlib.import_module("planned_open_clip")
    plan = write(tmp_path / "plan", draw(tmp_path))

    def epoch(world: int, number: int) -> list[str]:
        found = []
        for rank in range(world):
            args = SimpleNamespace(train_data=str(plan), seed=0, rank=rank, world_size=world, workers=0, batch_size=6)
            info = module.planned(args, lambda image: torch.zeros(1), True, epoch=number, tokenizer=lambda texts: texts)
            info.set_epoch(number)
            batches = list(info.dataloader)
            assert len(batches) == info.dataloader.num_batches
            found += [text for _, texts in batches for text in texts]
        return found

    want = sorted(text for b in PlannedBatches(plan).plan.batches(1) for text in b.texts)
    assert len(epoch(before, 0)) == 7 // before * before * 6
    found = sorted(epoch(7, 1))
    assert found == want


def test_open_clip_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without open_clip's extra for training, the error names the package that is missing, and not an older open_clip."""
    for name in ("open_clip_train", "open_clip_train.data", "training", "planned_open_clip"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "open_clip_train").mkdir()
    (tmp_path / "open_clip_train/__init__.py").write_text("")
    (tmp_path / "open_clip_train/data.py").write_text("import a_package_of_the_extra")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_package_of_the_extra"):
        importlib.import_module("planned_open_clip")
    sys.modules.pop("open_clip_train", None)

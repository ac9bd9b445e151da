"""Hugging Face's Trainer and CLIP on a plan of `pairstream batches`, with a data set that is read by index.

    python examples/planned_clip.py --plan plan --train train.jsonl --model openai/clip-vit-base-patch32 --output data/clip

train.jsonl has a line {"image": "photos/000000012.jpg", "caption": "..."} for each image, as Hugging Face's run_clip.py takes it.
The image's name without its ending is its key in the plan. To patch run_clip.py itself, take PlannedTrainer for its Trainer, and
give it `batches=PlannedBatches("plan", [Path(p).stem for p in train_dataset[image_column]])`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPModel, CLIPProcessor, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from pairstream import CheckpointError
from pairstream.picture import decode
from pairstream.torch import PlannedBatches

PLACE = "planned.json"  # in a checkpoint: the mini-batches that all ranks have had, and how many ranks there were


class PlannedLoader(DataLoader[Any]):
    """A loader that knows how far training is. Its sampler goes from epoch to epoch by itself."""

    def __len__(self) -> int:
        """Return the steps of a whole epoch, by which Trainer counts."""
        return int(self.batch_sampler.steps())  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[Any]:
        begin = super().__iter__

        def items() -> Iterator[Any]:
            yield from begin()

        for item, _ in self.batch_sampler.along(items()):  # type: ignore[union-attr]
            yield item


class PlannedTrainer(Trainer):  # type: ignore[misc]
    """Hugging Face's Trainer with the mini-batches of a plan. Every rank reads its own.

    It goes on from a checkpoint with any number of ranks. With another one, its steps and its learning rate go on where the same
    share of the epochs is done.
    """

    def __init__(self, *args: Any, batches: PlannedBatches, **options: Any) -> None:
        super().__init__(*args, **options)
        self.batches = batches
        self.add_callback(_Places(batches))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Make the loader. It is not prepared by accelerate, which would deal it out to ranks once more."""
        return PlannedLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator, num_workers=self.args.dataloader_num_workers)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any) -> Any:
        """Train from the beginning of the plan, or behind what the ranks of a checkpoint have trained on."""
        self.batches.set_epoch(0)
        found = get_last_checkpoint(self.args.output_dir) if resume_from_checkpoint is True else resume_from_checkpoint
        if not found:
            return super().train(resume_from_checkpoint, *args, **options)
        folder = Path(found)
        if not (folder / PLACE).exists():
            raise CheckpointError(f"{folder} has no {PLACE}, so nothing says which mini-batches were trained on: go on from an earlier checkpoint")
        place = json.loads((folder / PLACE).read_text())
        self.batches.load_state_dict(place)
        self.args.ignore_data_skip = True  # the sampler is there already
        if place["world"] == self.batches.world:
            return super().train(found, *args, **options)
        with TemporaryDirectory() as other:
            for file in folder.resolve().iterdir():
                (Path(other) / file.name).symlink_to(file)
            state = Path(other) / "trainer_state.json"
            counted = json.loads(state.read_text()) | {"global_step": self._steps_done()}
            state.unlink()
            state.write_text(json.dumps(counted))
            return super().train(other, *args, **options)

    def _steps_done(self) -> int:
        """Count the steps before the sampler's place, as if there had been as many ranks as now."""
        accumulated = self.args.gradient_accumulation_steps
        return int(self.batches.steps() // accumulated * (self.batches.epoch + 1) - len(self.batches) // accumulated)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and json.loads((Path(checkpoint) / PLACE).read_text())["world"] != self.batches.world:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch would rather have no steps by number
                self.lr_scheduler.step(self._steps_done())


class _Places(TrainerCallback):  # type: ignore[misc]
    """Writes how far training is into every checkpoint."""

    def __init__(self, batches: PlannedBatches) -> None:
        self.batches = batches

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        """Write it once the checkpoint is there."""
        if state.is_world_process_zero:
            place = self.batches.state_dict() | {"world": self.batches.world}
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / PLACE).write_text(json.dumps(place))


class Captioned(Dataset[dict[str, Any]]):
    """Images with captions, by index."""

    def __init__(self, lines: Path, prepare: Any) -> None:
        self.rows = [json.loads(line) for line in lines.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
        self.folder, self.prepare = lines.parent, prepare

    def keys(self) -> list[str]:
        """Return the keys of the images in the plan."""
        return [Path(row["image"]).stem for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        return dict(self.prepare(decode((self.folder / row["image"]).read_bytes()), row["caption"]))


def collate(examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Make a mini-batch, which CLIP's own loss is computed of."""
    return {name: torch.stack([e[name] for e in examples]) for name in examples[0]} | {"return_loss": True}


def train(model: CLIPModel, data: Captioned, batches: PlannedBatches, arguments: TrainingArguments) -> PlannedTrainer:
    """Train a model for as many epochs as the arguments say."""
    trainer = PlannedTrainer(model=model, args=arguments, train_dataset=data, data_collator=collate, batches=batches)
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    return trainer


def prepare(processor: CLIPProcessor, image: Image.Image, caption: str) -> dict[str, Any]:
    """Make an example. A closure would not reach loader workers by spawn or forkserver."""
    made = processor(text=caption, images=image, padding="max_length", truncation=True, return_tensors="pt")
    return {name: value[0] for name, value in made.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--train", required=True, type=Path)
    parser.add_argument("--model", default="openai/clip-vit-base-patch32", help="weights of Hugging Face to start from")
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--lr", type=float, default=1e-5)
    args = parser.parse_args()
    processor = CLIPProcessor.from_pretrained(args.model)

    data = Captioned(args.train, partial(prepare, processor))
    arguments = TrainingArguments(args.output, num_train_epochs=args.epochs, learning_rate=args.lr, remove_unused_columns=False, dataloader_num_workers=4)
    train(CLIPModel.from_pretrained(args.model), data, PlannedBatches(args.plan, data.keys()), arguments).save_model()


if __name__ == "__main__":
    main()

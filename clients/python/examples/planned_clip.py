"""Hugging Face's Trainer and CLIP on a plan of `pairstream batches`, with a data set that is read by index.

    python examples/planned_clip.py --plan plan --train train.jsonl --model openai/clip-vit-base-patch32 --output data/clip

train.jsonl has a line {"image": "photos/000000012.jpg", "caption": "..."} for each image, as Hugging Face's run_clip.py takes it.
The image's name without its ending is its key in the plan. To patch run_clip.py itself, take PlannedTrainer for its Trainer, and
give it `batches=PlannedBatches("plan", [Path(p).stem for p in train_dataset[image_column]])`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPModel, CLIPProcessor, Trainer, TrainingArguments

from pairstream.picture import decode
from pairstream.torch import PlannedBatches


class PlannedLoader(DataLoader[Any]):
    """A loader whose epochs Trainer chooses."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


class PlannedTrainer(Trainer):  # type: ignore[misc]
    """Hugging Face's Trainer with the mini-batches of a plan. Every rank reads its own."""

    def __init__(self, *args: Any, batches: PlannedBatches, **options: Any) -> None:
        super().__init__(*args, **options)
        self.batches = batches

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Make the loader. It is not prepared by accelerate, which would deal it out to ranks once more."""
        return PlannedLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator, num_workers=self.args.dataloader_num_workers)


class Captioned(Dataset[dict[str, Any]]):
    """Images with captions, by index."""

    def __init__(self, lines: Path, prepare: Any) -> None:
        self.rows = [json.loads(line) for line in lines.read_text().splitlines()]
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

    def prepare(image: Image.Image, caption: str) -> dict[str, Any]:
        made = processor(text=caption, images=image, padding="max_length", truncation=True, return_tensors="pt")
        return {name: value[0] for name, value in made.items()}

    data = Captioned(args.train, prepare)
    arguments = TrainingArguments(args.output, num_train_epochs=args.epochs, learning_rate=args.lr, remove_unused_columns=False, dataloader_num_workers=4)
    train(CLIPModel.from_pretrained(args.model), data, PlannedBatches(args.plan, data.keys()), arguments).save_model()


if __name__ == "__main__":
    main()

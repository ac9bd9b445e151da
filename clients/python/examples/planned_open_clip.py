"""open_clip's training script on a plan of `pairstream batches`, by tar and offset.

    pip install 'open_clip_torch[training]'
    python examples/planned_open_clip.py --train-data plan --batch-size 512 --model ViT-B-32 --epochs 3 ...

All options are open_clip's. Where --train-data is the folder of a plan, its mini-batches are trained on, with their texts; the
batch size is the plan's. Everything else stays as it is: one function of open_clip's data module is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch.utils.data import DataLoader

from pairstream.torch import Batch, PlannedTars, seeded

try:
    from open_clip_train import data, main
except ModuleNotFoundError as err:
    if err.name != "open_clip_train":
        raise
    # before open_clip 2.30
    from training import data, main  # type: ignore[import-not-found, no-redef]

usual = data.get_dataset_fn


def get_dataset_fn(path: str, kind: str) -> Any:
    """Choose what makes open_clip's loader."""
    return planned if (Path(path) / "plan.json").exists() else usual(path, kind)


def planned(args: Any, preprocess: Any, is_train: bool, epoch: int = 0, tokenizer: Any = None) -> Any:
    """Make open_clip's loader of a plan."""
    tars = PlannedTars(args.train_data, transform=seeded(preprocess), tokenize=tokenizer, seed=args.seed, rank=args.rank, world=args.world_size, drop_last=True)
    tars.set_epoch(epoch)
    loader: Any = DataLoader(tars, batch_size=None, collate_fn=pair, num_workers=args.workers, persistent_workers=args.workers > 0)
    loader.num_batches, loader.num_samples = len(tars), len(tars) * args.batch_size * args.world_size
    return data.DataInfo(loader, shared_epoch=SimpleNamespace(set_value=tars.set_epoch))


def pair(batch: Batch) -> tuple[Any, Any]:
    """Return what open_clip's loop takes."""
    return batch.images, batch.tokens


data.get_dataset_fn = get_dataset_fn

if __name__ == "__main__":
    main.main(sys.argv[1:])

"""open_clip's training script on the tars of `pairstream batches --materialize`, mini-batch by mini-batch.

    pip install 'open_clip_torch[training]'
    python examples/tars_open_clip.py --train-data 'tars/epoch-000/{0000000..0000041}.tar' --dataset-type webdataset ...

All options are open_clip's; --batch-size is the plan's BATCH_SIZE. open_clip shuffles tars and samples, which would undo the
mini-batches. This sets the sizes of its shuffling to 1, and leaves the rest alone. --model may also be a file with the shape of a
model, such as tiny_clip.json. It needs nothing of pairstream.
"""

from __future__ import annotations

import sys
from pathlib import Path

import open_clip

try:
    from open_clip_train import data, main
except ModuleNotFoundError as err:
    if err.name != "open_clip_train":
        raise
    # before open_clip 2.30
    from training import data, main  # type: ignore[import-not-found, no-redef]

for name in vars(data).copy():
    if name.startswith(("_SHARD_SHUFFLE_", "_SAMPLE_SHUFFLE_")):
        setattr(data, name, 1)

if __name__ == "__main__":
    arguments = sys.argv[1:]
    for path in [Path(a) for a in arguments if a.endswith(".json")]:
        open_clip.add_model_config(path)
        arguments[arguments.index(str(path))] = path.stem
    main.main(arguments)

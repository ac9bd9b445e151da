"""One rank of a job of the tests: train_once.py CRAWL CHECKPOINTS EVERY, with torchrun's environment."""

import dataclasses
import hashlib
import json
import os
import signal
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import torch
from crawl import WORDS

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import albef

from pairstream import Config
from pairstream.torch import Images, ScoredBatches, Trainer, augment, shard, whole
from pairstream.torch.wordpiece import WordPiece


def new_model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    if os.environ.get("MODEL") == "blip2":
        import blip2  # needs transformers

        return blip2.QFormer.at_random(len(WORDS), 16, dropout=0)
    shape = albef.Shape(
        image_size=16, patch_size=8, vision_dim=16, vision_depth=1, vision_heads=2, text_hidden=16, text_layers=2, fusion_layer=1, text_heads=2,
        text_intermediate=32, vocab_size=len(WORDS), max_positions=16, embed_dim=8, text_tokens=12,
    )  # fmt: skip
    queue = int(os.environ.get("QUEUE", "0"))
    more = {"targets": "distilled", "momentum": True, "momentum_decay": 0.5, "momentum_queue": queue} if queue else {}
    return albef.ALBEF(shape, albef.Recipe(dropout=0.1, **more), WORDS)


def new_trainer(config: Config, folder: Path | str, **options) -> Trainer:  # type: ignore[no-untyped-def]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = new_model()
    if os.environ.get("SHARD"):
        model = shard(model, timeout=60)
    batches = ScoredBatches(
        config, transform=augment(16), tokenize=WordPiece(WORDS).padded(12), seed=5, timeout=options.pop("patience", 60), images=Images(roots=[]),
        rank=options.pop("rank", None), world=options.pop("world", None),
    )  # fmt: skip
    parameters = [p for p in model.parameters() if p.requires_grad] if os.environ.get("MODEL") else model.decay_groups()
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    return Trainer(model, optimizer, batches, folder, **({"every": 2, "timeout": 60, "clip": 1.0} | options))


def weights(model: torch.nn.Module) -> str:
    h = hashlib.sha256()
    for name, t in sorted(whole(model.state_dict()).items()):
        h.update(name.encode() + t.numpy().tobytes())
    return h.hexdigest()


def main() -> None:
    config = dataclasses.replace(Config.from_env())
    slow = float(os.environ.get("SLOW", "0"))
    trainer = new_trainer(config, sys.argv[1], every=int(sys.argv[2]), observe=lambda *_: time.sleep(slow))
    print("ready", flush=True)
    starts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    die(starts, trainer.rank)
    wrapper = weakref.ref(trainer.wrapped)
    steps = trainer.run()
    assert trainer.world == 1 or trainer.sharded or wrapper() is None, "DDP has the process group, which must not end with it: PyTorch's threads wait for each other then"
    print("done", steps, weights(trainer.model), starts, flush=True)
    if trainer.sharded:
        torch.distributed.destroy_process_group()


def die(starts: int, rank: int) -> None:
    """KILLS has a rank and a time in seconds for each start: let the rank get a kill -9 then, if it still runs."""
    kills = json.loads(os.environ.get("KILLS", "[]"))
    if starts < len(kills) and kills[starts][0] == rank:
        timer = threading.Timer(kills[starts][1], os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()


if __name__ == "__main__":
    main()

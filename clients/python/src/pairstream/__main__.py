"""python -m pairstream: publish pairs, print mini-batches, convert models (--help for more)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from pathlib import Path

from ._command import become
from .config import Config
from .errors import PairstreamError, ReadTimeout
from .records import Batch, ScoredBatch, Seal


def _config(args: argparse.Namespace) -> Config:
    config = Config.from_env()
    if args.brokers:
        config = dataclasses.replace(config, brokers=tuple(args.brokers.split(",")))
    if args.namespace is not None:
        config = dataclasses.replace(config, namespace=args.namespace)
    return config


def publish(args: argparse.Namespace) -> None:
    """Publish one image-text pair."""
    from .producer import PairProducer  # needs confluent-kafka, as does read

    with PairProducer(_config(args)) as producer:
        pair = producer.send(Path(args.image).read_bytes(), args.caption, uri=args.uri, offset=args.offset)
    print(f"published {pair.hex()}")


def read(args: argparse.Namespace) -> None:
    """Print a line of JSON for each mini-batch of a lane, from its start."""
    from .reader import Reader

    printed = 0
    with Reader(_config(args), args.topic, args.lane, timeout=args.timeout) as reader:
        for message in reader:
            record = message.record()
            if isinstance(record, Seal) and record.final:
                return
            if isinstance(record, Batch):
                print(json.dumps(describe(record), ensure_ascii=False), flush=True)
                printed += 1
                if printed == args.count:
                    return


def describe(batch: Batch) -> dict[str, object]:
    """Return a few things about a batch that show how its columns are read."""
    line: dict[str, object] = {
        "schema": batch.SCHEMA,
        "group": str(batch.group),
        "epoch": batch.epoch,
        "sequence": batch.sequence,
        "strategy": batch.strategy,
        "ids": [s.id.hex() for s in batch.samples],
        "texts": [s.text for s in batch.samples],
        # row i: the samples whose texts are the hardest for image i, hardest first; -1 means none
        "hardest_texts": batch.i2t.reshape(len(batch.samples), batch.m).tolist(),
    }
    if isinstance(batch, ScoredBatch):
        line["probabilities"] = [round(p, 4) for p in batch.prob_i2t.tolist()]
    return line


def convert(args: argparse.Namespace) -> None:
    """Turn a checkpoint of ALBEF, GRIT-VLP or MAFA (.pth) into weights for pairstream."""
    from .torch.convert import convert_file  # needs torch

    kept, found = convert_file(args.checkpoint, args.out, args.vocab, image_size=args.image_size, heads=args.heads, trust=args.trust)
    print(f"{kept} tensors of {found} written to {args.out}")


def init(args: argparse.Namespace) -> None:
    """Make first weights of DeiT and BERT, by Hugging Face's or timm's names."""
    from .torch.first import write_first  # needs torch

    sizes = {"image_size": args.image_size, "embed_dim": args.embed_dim, "seed": args.seed, "heads": args.heads}
    print(f"{write_first(args.image, args.text, args.out, args.vocab, trust=args.trust, **sizes)} tensors written to {args.out}")


def export(args: argparse.Namespace) -> None:
    """Turn pairstream's weights into a checkpoint of ALBEF's code (.pth), for its fine-tuning scripts."""
    from .torch.export import export_albef  # needs torch

    print(f"{export_albef(args.weights, args.out, nlvr=args.nlvr, queue=args.queue)} tensors written to {args.out}")


def export_match(args: argparse.Namespace) -> None:
    """Turn the matching head of BLIP (Hugging Face) into TorchScript for COND_CHECKPOINT."""
    from .torch.match import export_blip  # needs torch and transformers

    export_blip(args.model, args.out, text_tokens=args.text_tokens)
    print(f"written to {args.out}")


def export_encoder(args: argparse.Namespace) -> None:
    """Turn a dual encoder that open_clip or transformers load into TorchScript for ENCODER_CHECKPOINT."""
    from .torch.encoder import export_encoder as write  # needs torch, and open_clip or transformers

    write(args.model, args.out, weights=args.weights, text_tokens=args.text_tokens)
    print(f"written to {args.out}")


def strategy(args: argparse.Namespace) -> None:
    """Print the digest of a strategy's module, or let it order a group: `pairstream batches --strategy` runs this."""
    from .strategy import run

    run(args.function, args.folder, end_with_input=args.end_with_input)


def track(args: argparse.Namespace) -> None:
    """Hand reports of training to MLflow or Weights & Biases: the lines of `pairstream progress --json`, from standard input."""
    from .track import follow

    # An interruption ends the program that writes the lines. Their end is then the end of the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(f"sent {follow(sys.stdin, args.to, args.project, args.run_name)} reports to {args.to}, run {args.run_name} of {args.project}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pairstream", description=__doc__)
    commands = parser.add_subparsers(required=True)
    brokers = argparse.ArgumentParser(add_help=False)
    brokers.add_argument("--brokers", help="host:port, comma separated; default: KAFKA_BROKERS")
    brokers.add_argument("--namespace", help="prefix of all topics; default: NAMESPACE")

    sub = commands.add_parser("publish", parents=[brokers], help=publish.__doc__)
    sub.add_argument("image", help="file with the encoded image (JPEG, PNG or WebP)")
    sub.add_argument("caption")
    sub.add_argument("--uri", default="", help="object that holds the image, e.g. s3://crawl/00000.tar; without it the image is sent inline")
    sub.add_argument("--offset", type=int, default=0, help="first byte of the image in that object")
    sub.set_defaults(run=publish)

    commands.add_parser("produce", help="publish whole tars, tables and lists: becomes `pairstream produce` of the wheel, with its arguments")

    sub = commands.add_parser("read", parents=[brokers], help=read.__doc__)
    sub.add_argument("--topic", choices=["batches", "scored"], default="batches")
    sub.add_argument("--lane", type=int, default=0)
    sub.add_argument("--count", type=int, default=0, help="end after so many batches; 0: go on until the final seal")
    sub.add_argument("--timeout", type=float, default=60, help="seconds to wait for the next record")
    sub.set_defaults(run=read)

    sub = commands.add_parser("convert", help=convert.__doc__)
    sub.add_argument("checkpoint", help=".pth file of the authors")
    sub.add_argument("out", help="safetensors file to write")
    sub.add_argument("--vocab", required=True, help="WordPiece vocabulary, a token a line: bert-base-uncased's for the authors' models")
    sub.add_argument("--image-size", type=int, default=0, help="resize the position embeddings for images of so many pixels, e.g. 384; 0: as they are")
    sub.add_argument("--heads", type=int, default=0, help="attention heads of both encoders, where the file does not say; 0: width / 64, in the published widths")
    sub.add_argument("--trust", action="store_true", help="load whatever the file holds: this runs code of those who made it")
    sub.set_defaults(run=convert)

    sub = commands.add_parser("init", help=init.__doc__)
    sub.add_argument("image", help="weights of a DeiT or ViT (.pth, .bin or .safetensors), e.g. deit_base_patch16_224")
    sub.add_argument("text", help="weights of a BERT, e.g. bert-base-uncased")
    sub.add_argument("out", help="safetensors file to write")
    sub.add_argument("--vocab", required=True, help="BERT's vocabulary, a token a line")
    sub.add_argument("--image-size", type=int, default=256, help="pixels on a side; position embeddings are resized")
    sub.add_argument("--embed-dim", type=int, default=256, help="width of the features of ITC")
    sub.add_argument("--seed", type=int, default=0, help="decides what neither file has: cross-attention, projections, heads")
    sub.add_argument("--heads", type=int, default=0, help="attention heads of both encoders, which the files do not say; 0: width / 64, in the published widths")
    sub.add_argument("--trust", action="store_true", help="load whatever the files hold: this runs code of those who made them")
    sub.set_defaults(run=init)

    sub = commands.add_parser("export", help=export.__doc__)
    sub.add_argument("weights", help="safetensors file of pairstream, such as a checkpoint")
    sub.add_argument("out", help=".pth file to write")
    sub.add_argument("--nlvr", action="store_true", help="for NLVR.py: fusion layers doubled; Pretrain_nlvr.py doubles them itself")
    sub.add_argument("--queue", type=int, default=65536, help="features in the queues of Retrieval.py, its queue_size; 0: no queues")
    sub.set_defaults(run=export)

    sub = commands.add_parser("export-match", help=export_match.__doc__)
    sub.add_argument("model", help="name or folder of a BlipForImageTextRetrieval, e.g. Salesforce/blip-itm-base-coco")
    sub.add_argument("out", help="TorchScript file to write (.pt)")
    sub.add_argument("--text-tokens", type=int, default=35, help="length that captions are cut to, [CLS] and [SEP] included")
    sub.set_defaults(run=export_match)

    sub = commands.add_parser("export-encoder", help=export_encoder.__doc__)
    sub.add_argument("model", help="name or folder of transformers, e.g. google/siglip-base-patch16-224; folder, hf-hub: name or name of open_clip, e.g. ViT-B-32")
    sub.add_argument("out", help="TorchScript file to write (.pt)")
    sub.add_argument("--weights", default="", help="for a name of open_clip: its tag, or a checkpoint of its training script, e.g. logs/run/checkpoints/epoch_32.pt")
    sub.add_argument("--text-tokens", type=int, default=0, help="length of texts; 0: the model's own")
    sub.set_defaults(run=export_encoder)

    sub = commands.add_parser("strategy", help=strategy.__doc__)
    sub.add_argument("function", help="module:function")
    sub.add_argument("folder", nargs="?", type=Path, help="folder of a group, in which `pairstream batches` has written its arrays")
    sub.add_argument("--end-with-input", action="store_true", help="end at the end of standard input, which the calling process holds open")
    sub.set_defaults(run=strategy)
    sub = commands.add_parser("track", help=track.__doc__)
    sub.add_argument("--to", choices=["mlflow", "wandb"], required=True)
    sub.add_argument("--project", default="pairstream", help="MLflow's experiment, or the project of Weights & Biases")
    sub.add_argument("--run", dest="run_name", required=True, help="name of the run; the same name continues it")
    sub.set_defaults(run=track)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["produce"]:
        become(argv)
    args = _parser().parse_args(argv)
    try:
        args.run(args)
    except (PairstreamError, ReadTimeout, OSError) as err:
        print(f"pairstream: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Reads the mini-batches of one lane from its start and prints a line of JSON for each (--help for more)."""

import argparse
import json
import sys

from confluent_kafka import Consumer, KafkaError, TopicPartition

import records


def describe(schema: str, batch: dict) -> dict:
    """A few things about a batch that show how its columns are read."""
    m = batch["m"]
    hardest = records.int32s(batch.get("i2t"))
    line = {
        "schema": schema,
        "group": f"{batch['group']['lane']}/{batch['group']['seq']}",
        "epoch": batch["epoch"],
        "sequence": batch["sequence"],
        "strategy": batch["strategy"],
        "ids": [sample["id"].hex() for sample in batch["samples"]],
        "texts": [sample["text"] for sample in batch["samples"]],
        # row i: the samples whose texts are the hardest for image i, hardest first; -1 means none
        "hardest_texts": [hardest[i : i + m] for i in range(0, len(hardest), m or 1)],
    }
    if "prob_i2t" in batch:
        line["probabilities"] = [round(p, 4) for p in records.float32s(batch["prob_i2t"])]
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--topic", choices=["batches", "scored"], default="batches")
    parser.add_argument("--lane", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="end after so many batches; 0: go on until the final seal")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for the next record")
    args = parser.parse_args()

    consumer = Consumer({"bootstrap.servers": args.brokers, "group.id": "unused", "enable.auto.commit": False})
    topic = records.topic_name(args.topic, args.namespace)
    consumer.assign([TopicPartition(topic, args.lane, 0)])
    expected = printed = 0
    while True:
        message = consumer.poll(args.timeout)
        if message is None:
            sys.exit(f"{topic}, lane {args.lane}: no record within {args.timeout:g} s")
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                continue
            sys.exit(f"{topic}, lane {args.lane}: {message.error()}")
        headers = {name: value.decode(errors="replace") for name, value in message.headers() or [] if name in ("schema", "seq")}
        seq = int(headers["seq"])
        if seq < expected:  # written again after a crash: the same record
            continue
        if seq > expected:
            sys.exit(f"{topic}, lane {args.lane}: records {expected} to {seq - 1} are missing")
        expected += 1
        record = records.unpack(message.value())
        if headers["schema"] == records.SEAL:
            if record["final"]:
                break
            continue
        print(json.dumps(describe(headers["schema"], record), ensure_ascii=False), flush=True)
        printed += 1
        if printed == args.count:
            break
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

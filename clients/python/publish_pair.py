#!/usr/bin/env python3
"""Publishes one image-text pair: publish_pair.py cat.jpg "a cat on a sofa" (--help for more)."""

import argparse
import sys

from confluent_kafka import Producer

import records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", help="file with the encoded image (JPEG, PNG or WebP)")
    parser.add_argument("caption")
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--uri", help="object that holds the image, e.g. s3://crawl/00000.tar; without it the image is sent inline")
    parser.add_argument("--offset", type=int, default=0, help="first byte of the image in that object")
    args = parser.parse_args()

    with open(args.image, "rb") as file:
        encoded = file.read()
    if args.uri:
        pair = records.pair_by_reference(encoded, args.caption, args.uri, args.offset)
    else:
        pair = records.inline_pair(encoded, args.caption)

    topic = records.topic_name("pairs", args.namespace)
    producer = Producer({"bootstrap.servers": args.brokers, "acks": "all", "message.max.bytes": 22 << 20})
    described = producer.list_topics(topic, timeout=10).topics[topic]
    if described.error:
        sys.exit(f"topic {topic}: {described.error}")
    partition = records.lane(pair["id"], len(described.partitions))

    errors = []
    producer.produce(
        topic,
        records.pack(pair),
        partition=partition,  # chosen by the pair's id, not by a hash of a key
        headers={"schema": records.PAIR},
        on_delivery=lambda error, _: errors.append(error) if error else None,
    )
    if producer.flush(30) or errors:
        sys.exit(f"publishing to {topic}: {errors or 'no answer'}")
    print(f"published {pair['id'].hex()} to lane {partition} of {topic}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The topics, in the order in which a pair travels through them, and the names of headers.

go test ./schemas -rewrite writes the topics from Go's catalogue.
"""

from __future__ import annotations

PAIRS = "pairs"
EMBEDDINGS = "embeddings"
NEIGHBORS = "neighbors"
GROUPS = "groups"
BATCHES = "batches"
SCORED = "scored"
FEATURES = "features"
PROGRESS = "progress"
DEAD_LETTERS = "dead-letters"
CONTROL = "control"
SOURCES = "sources"
JUDGEMENTS = "judgements"
FORGOTTEN = "forgotten"

# What a stage writes to these is numbered by the header "seq". The other topics have no seqs.
SEQUENCED = frozenset({EMBEDDINGS, NEIGHBORS, GROUPS, BATCHES, SCORED, FEATURES})

HEADER_SCHEMA = "schema"
HEADER_SEQ = "seq"
HEADER_SOURCE = "src"


def topic_name(topic: str, namespace: str = "") -> str:
    """Return the name of a topic on the broker."""
    return f"{namespace}.{topic}" if namespace else topic

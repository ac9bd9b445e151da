"""WebDataset tars: `scan` finds in them what `pairstream produce` finds, `publish` publishes it.

A tar holds the files of one example next to one another, under one key: the entry's name up to the first dot of its last
element. key.jpg, key.jpeg, key.png or key.webp is the image; captions come from key.txt and from "caption" and "captions"
in key.json. Every caption of every image is a pair. Everything else that was meant as one (a tar cut in the middle, a
caption without an image, ...) is a `Problem`, whose record the encoder puts among the dead letters: nothing is passed over.

The table (.parquet) of the same name beside a tar, as img2dataset writes it, adds its columns. An image whose status is
not "success" is a problem. Reading tables takes pyarrow: pip install pyarrow.

Values, ids, lanes and notes are those of the Go program, byte for byte. Two things may differ. Where the disk fails while a
tar is read, the words behind the reason in the record's "problem". And of a table that is damaged within, one program may
be able to read what the other is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._book import Book, Source, Totals
from ._paths import Paths, file_uri, find
from ._scan import MAX_PROBLEMS, Example, Problem
from .errors import PairstreamError
from .producer import PairProducer

__all__ = ["MAX_PROBLEMS", "Example", "Problem", "Totals", "file_uri", "publish", "scan", "tars"]


def tars(paths: Paths) -> list[str]:
    """List the tars that paths name, in order. A folder stands for the files *.tar in and below it, in lexical order."""
    return find(paths)[0]


def scan(paths: Paths) -> Iterator[Example | Problem]:
    """Yield the examples and problems of tars, given by path or by folder, in order."""
    sources = _sources(paths)
    for source in sources:
        source.check()
    for source in sources:
        yield from source.items()


def publish(producer: PairProducer, paths: Paths, *, final: bool = False, resume: bool = True) -> Totals:
    """Publish the pairs of tars, by reference, and return what it came to. Images stay where they are.

    A run that was cut short goes on where it has stopped, and a second run publishes only what is new or has changed:
    the log notes how much of every tar is published (topic `sources`). resume=False publishes everything again.
    """
    totals = Totals()
    sources = _sources(paths)
    book = Book(producer, totals, resume=resume)
    book.plan(sources)
    for source in sources:
        if not source.whole:
            source.check()
    for source in sources:
        if not source.whole:
            book.publish(source)
    if not totals.tars and not totals.done:
        raise PairstreamError(f"none of {len(sources)} tars can be read: {next(s.trouble for s in sources if s.trouble)}")
    book.close()
    if final:
        book.seal()
    return totals


def _sources(paths: Paths) -> list[Source]:
    found, lost = find(paths)
    return [Source(path) for path in dict.fromkeys(found)] + [Source("", problem) for problem in lost]

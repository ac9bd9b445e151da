"""Which files are tars, by the rules of internal/crawl/shard."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from ._scan import Problem
from .errors import PairstreamError
from .records import MAX_URI_BYTES

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


_COMPRESSED = (
    ".tar.gz", ".tar.zst", ".tar.zstd", ".tar.xz", ".tar.bz2", ".tar.lz4", ".tar.z", ".tgz", ".tzst", ".txz", ".tbz2", ".tbz",
)  # fmt: skip


class _UnfitError(Exception):
    """A path names no tar that could be published."""


def find(paths: Paths) -> tuple[list[str], list[Problem]]:
    """List the tars that paths name, in order, and what is no tar that can be read.

    A folder stands for the files *.tar in and below it, in lexical order.
    """
    many = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    out: list[str] = []
    lost: list[Problem] = []
    for path in many:
        try:
            tars, problems = _tars_of(os.path.realpath(path, strict=True))
        except _UnfitError as err:
            raise PairstreamError(f"looking for tars in {path}: {err}") from err
        out, lost = out + tars, lost + problems
    return out, lost


def _tars_of(path: str) -> tuple[list[str], list[Problem]]:
    if not Path(path).is_dir():
        return [_real_tar(path)], []
    os.scandir(path).close()  # raises where the folder itself cannot be read
    tars: list[str] = []
    lost: list[Problem] = []
    for p in _walk(Path(path), lambda err: lost.append(unreadable(str(err.filename), err))):
        if p.name.lower().endswith(_COMPRESSED):
            lost.append(unreadable(str(p), _UnfitError("it is a compressed tar: decompress it first, as references name places in a tar")))
            continue
        if not p.name.lower().endswith(".tar"):
            continue
        try:
            tars.append(_real_tar(str(p)))
        except (OSError, _UnfitError) as err:
            lost.append(unreadable(str(p), err, "lstat"))
    if not tars:
        raise _UnfitError("the folder holds no *.tar that can be read" + (f"; {lost[0].uri}: {lost[0].detail}" if lost else ""))
    return tars, lost


def _real_tar(path: str) -> str:
    """Resolve the path of a tar, and check that references to it can be written."""
    real = os.path.realpath(path, strict=True)
    if not Path(real).is_file():
        raise _UnfitError(f"{real} is no regular file")
    size = len(file_uri(real))
    if size > MAX_URI_BYTES:
        raise _UnfitError(f"the reference to {real} would have {size} bytes, at most {MAX_URI_BYTES} are allowed")
    return real


def _walk(folder: Path, failed: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield what lies below a folder and is no folder, in the order of Go's filepath.WalkDir."""
    try:
        found = sorted(folder.iterdir(), key=lambda p: os.fsencode(p.name))
    except OSError as err:
        failed(err)
        return
    for p in found:
        if p.is_dir() and not p.is_symlink():
            yield from _walk(p, failed)
        else:
            yield p


def unreadable(path: str, why: Exception, doing: str = "open") -> Problem:
    """Return the problem of a tar or folder that cannot be read, in Go's words."""
    detail = f"{doing} {why.filename or path}: {os.strerror(why.errno or 0).lower()}" if isinstance(why, OSError) else str(why)
    return Problem(file_uri(path), 0, "", "file_unreadable", detail)


def file_uri(path: str) -> str:
    """Return the file:// form of an absolute path."""
    return "file://" + quote(os.fsencode(path), safe="/$&+,:;=@~")

"""Images of buckets on a disk that all processes of a machine share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from ..errors import SettingError

_NAME = re.compile("[0-9a-f]{32}")
_LEFT_AFTER = 3600.0  # seconds after which a file that was begun is that of a process that is gone


class Disk:
    """A folder of images by the hash of their bytes, of at most `most` bytes. What was used least recently goes first.

    Workers, ranks and runs may share it: a file appears whole, and its reader checks the hash. A disk that is full or fails costs
    reads of the bucket and a warning, no training.
    """

    def __init__(self, folder: str | os.PathLike[str], most: int) -> None:
        if most < 1:
            raise SettingError(f"disk_bytes is {most}, want 1 or more")
        self.folder, self.most = Path(folder), most
        self._warned = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._locked() as size:
                os.fstat(size)
        except OSError as err:
            raise SettingError(f"disk is {str(folder)!r}, want a folder that this process may write: {err}") from err

    def get(self, name: bytes) -> bytes | None:
        """Return an image, or None. Its use counts as the latest."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as err:
            self._warn(err)
            return None
        return data

    def put(self, name: bytes, data: bytes) -> None:
        """Keep an image, unless it is kept or larger than the whole."""
        path = self._path(name)
        if len(data) > self.most or path.exists():
            return
        begun: str | None = None
        try:
            path.parent.mkdir(exist_ok=True)
            file, begun = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(file, "wb") as f:
                f.write(data)
            with self._locked() as size:
                if not path.exists():
                    total = self._total(size) + len(data)
                    if total > self.most:
                        total = self._evict(min(self.most - len(data), self.most * 9 // 10)) + len(data)
                    Path(begun).replace(path)
                    begun = None
                    os.pwrite(size, b"%20d" % total, 0)
        except OSError as err:
            self._warn(err)
        finally:
            if begun is not None:
                with contextlib.suppress(OSError):
                    Path(begun).unlink()

    def drop(self, name: bytes) -> None:
        """Remove an image whose bytes are not what they were."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: bytes) -> Path:
        digits = name.hex()
        return self.folder / digits[:2] / digits

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file with the number of bytes that are kept, for one process and thread at a time."""
        file = os.open(self.folder / ".bytes", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _total(self, size: int) -> int:
        noted = os.pread(size, 20, 0).strip()
        return int(noted) if noted.isdigit() else self._evict(self.most)

    def _evict(self, room: int) -> int:
        """Remove the least recently used images until the rest takes no more than room, and return what it takes."""
        kept: list[tuple[float, int, str]] = []
        with os.scandir(self.folder) as folders:
            names = [f.path for f in folders if len(f.name) == 2 and f.is_dir(follow_symlinks=False)]
        for name in names:
            with os.scandir(name) as files:
                for f in files:
                    info = f.stat(follow_symlinks=False)
                    if _NAME.fullmatch(f.name):
                        kept.append((info.st_mtime, info.st_size, f.path))
                    elif f.name.startswith(".") and f.name.endswith(".tmp") and info.st_mtime < time.time() - _LEFT_AFTER:
                        Path(f.path).unlink(missing_ok=True)
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= room:
                break
            Path(path).unlink(missing_ok=True)
            total -= size
        return total

    def _warn(self, err: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"images are not kept on the disk in {self.folder}, and are read from the bucket again: {err}", RuntimeWarning, stacklevel=3)

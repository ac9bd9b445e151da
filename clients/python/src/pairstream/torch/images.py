"""Images by range reads, and what varies them.

A transform is a function of a picture and a generator: `transform(image, draw)` makes a tensor of a PIL image, and takes
every random number from draw. The generator is keyed by the seed and the sample's place, so a resumed run, or one with
another number of workers, augments alike. `seeded` makes such a function of a transform that draws from torch's own
generator, as torchvision's do.
"""

from __future__ import annotations

import io
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import torch
from PIL import ExifTags, Image, ImageEnhance, ImageOps
from torch import Tensor

from ..errors import BucketError, ImageError, SettingError
from ..ids import image_id
from ..records import MAX_IMAGE_BYTES, ImageRef
from ..rng import Generator

Transform = Callable[[Image.Image, Generator], Tensor]

MAX_PIXELS = 64_000_000
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0


class Images:
    """Reads images of file://, s3:// and gs:// objects by range, and keeps the latest used of remote ones.

    roots are the places that references may name, such as file:///data or s3://bucket/prefix; by default those of the
    variable BUCKET_ROOTS, and without it every place. An image that is not there for good raises ImageError. A bucket that
    fails is asked again for timeout seconds; then BucketError. Safe for several threads.
    """

    def __init__(self, *, roots: Sequence[str] | None = None, cache_bytes: int = 256 << 20, timeout: float = 60.0) -> None:
        if roots is None:
            roots = [r for r in os.environ.get("BUCKET_ROOTS", "").split(",") if r]
        self.roots = [_split(r.strip().rstrip("/") + "/") for r in roots]
        self.cache_bytes, self.timeout = cache_bytes, timeout
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, ref: ImageRef, image: bytes) -> bytes:
        """Return the encoded bytes of an image, whose id must be image."""
        scheme, host, path = _split(ref.uri)
        where = f"image {image.hex()} of {ref.size} bytes at {ref.offset} of {ref.uri}"
        if not self._allowed(scheme, host, path) or not 0 < ref.size <= MAX_IMAGE_BYTES:
            raise ImageError(f"reading {where}: it is outside the bucket roots (BUCKET_ROOTS)")
        with self._lock:
            if image in self._kept:
                self._kept.move_to_end(image)
                return self._kept[image]
        data = self._fetch(scheme, host, path, ref, where)
        if len(data) < ref.size:
            raise ImageError(f"reading {where}: the object ends before the image")
        if image_id(data) != image:
            raise ImageError(f"reading {where}: the bytes do not have the image id")
        if scheme != "file":  # the system keeps what lies in files
            self._keep(image, data)
        return data

    def decode(self, ref: ImageRef, image: bytes) -> Image.Image:
        """Return an image as RGB, turned upright."""
        return decode(self.read(ref, image))

    def _allowed(self, scheme: str, host: str, path: str) -> bool:
        parts = path.removeprefix("/").split("/")
        if any(p in ("", ".", "..") or "\0" in p or "\\" in p for p in parts):
            return False
        return not self.roots or any(s == scheme and h == host and path.startswith(p) for s, h, p in self.roots)

    def _fetch(self, scheme: str, host: str, path: str, ref: ImageRef, where: str) -> bytes:
        until, pause = time.monotonic() + self.timeout, _FIRST_PAUSE
        while True:
            try:
                if scheme == "file":
                    with open(path, "rb") as file:
                        return os.pread(file.fileno(), ref.size, ref.offset)
                data: bytes = _remote(scheme).cat_file(f"{host}{path}", start=ref.offset, end=ref.offset + ref.size)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as err:
                raise ImageError(f"reading {where}: {err}") from err
            except ImportError as err:
                raise SettingError(f"reading {where}: pip install what fsspec needs for {scheme}: {err}") from err
            except Exception as err:
                if time.monotonic() + pause > until:
                    raise BucketError(f"reading {where}: {err}") from err
                time.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            else:
                return data

    def _keep(self, image: bytes, data: bytes) -> None:
        with self._lock:
            if image in self._kept or len(data) > self.cache_bytes:
                return
            self._kept[image] = data
            self._size += len(data)
            while self._size > self.cache_bytes:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old)

    def __getstate__(self) -> dict[str, Any]:
        """Go to a worker process without the lock and without what is kept."""
        return self.__dict__ | {"_lock": None, "_kept": OrderedDict(), "_size": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def _split(uri: str) -> tuple[str, str, str]:
    parts = urlsplit(uri)
    host = "" if parts.scheme == "file" and parts.netloc == "localhost" else parts.netloc
    return parts.scheme, host, unquote(parts.path)


def _remote(scheme: str) -> Any:
    import fsspec

    return fsspec.filesystem(scheme)


def decode(encoded: bytes) -> Image.Image:
    """Return an encoded image as RGB, turned upright; ImageError if it is none, or too large."""
    try:
        with Image.open(io.BytesIO(encoded), formats=("JPEG", "PNG", "WEBP")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageError(f"{image.width} x {image.height} pixels, want at most {MAX_PIXELS}")
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
            return (ImageOps.exif_transpose(image) if turned else image).convert("RGB")
    except ImageError:
        raise
    except Exception as err:  # Pillow raises many kinds for broken bytes
        raise ImageError(f"not a readable image: {err}") from err


def normalized(image: Image.Image) -> Tensor:
    """Return the pixels as [3, height, width] with CLIP's statistics, which ALBEF uses as well."""
    pixels = np.asarray(image)
    out = np.empty((3, *pixels.shape[:2]), dtype=np.float32)
    for plane, values, mean, std in zip(out, pixels.transpose(2, 0, 1), CLIP_MEAN, CLIP_STD, strict=True):
        np.divide(values, np.float32(255), out=plane)
        plane -= np.float32(mean)
        plane /= np.float32(std)
    return torch.from_numpy(out)


def resize(size: int) -> Transform:
    """Scale both sides to size: what the built-in trainer does without augmentation, to the last bit but for rounding."""

    def transform(image: Image.Image, draw: Generator) -> Tensor:
        return normalized(image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0))

    return transform


def augment(size: int, min_scale: float = 0.5, flip: float = 0.5, color: float = 0.2) -> Transform:
    """Crop, mirror and colour at random, as the built-in trainer does.

    A crop keeps min_scale..1 of the area, in a shape between 3:4 and 4:3. flip is the probability of mirroring: 0 where
    captions speak of left and right. Brightness, contrast and saturation vary by factors within 1-color..1+color.
    """

    def transform(image: Image.Image, draw: Generator) -> Tensor:
        box = _crop(image.width, image.height, min_scale, draw)
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)
        if flip and draw.random() < flip:
            image = ImageOps.mirror(image)
        if color:
            for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
                image = change(image).enhance(1 + color * (2 * draw.random() - 1))
        return normalized(image)

    return transform


def _crop(width: int, height: int, min_scale: float, draw: Generator) -> tuple[float, float, float, float]:
    for _ in range(10):
        area = width * height * (min_scale + (1 - min_scale) * draw.random())
        ratio = 0.75 + 0.25 * draw.random()
        if draw.integer(2):
            ratio = 1 / ratio
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 1 <= w <= width and 1 <= h <= height:
            x, y = draw.integer(width - w + 1), draw.integer(height - h + 1)
            return x, y, x + w, y + h
    w, h = min(width, max(1, height * 4 // 3)), min(height, max(1, width * 4 // 3))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


_global_generator = threading.Lock()


def seeded(transform: Callable[[Image.Image], Tensor]) -> Transform:
    """Let a transform that draws from torch's generator, as torchvision's do, draw from the sample's.

    One image at a time is transformed then: use several workers.
    """

    def with_seed(image: Image.Image, draw: Generator) -> Tensor:
        with _global_generator, torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw.uint64() >> 1)
            return transform(image)

    return with_seed

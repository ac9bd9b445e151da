"""Decode pictures as the stages do: 8 bits a channel, over white, upright. It takes Pillow and numpy.

Pillow alone shows the hidden colours of transparent pixels, cuts 16-bit grey off at 255 and turns what other programs leave.
So it gets nothing but what the pixels depend on, and the rest is done here, by the rule of the Go package
internal/content/imaging:

- Transparent pixels lie over white: an alpha channel, a palette with alpha, or the one colour that a PNG calls transparent.
- Of 16 bits the upper 8 count.
- A JPEG is turned by the orientation of its Exif block, if that is a SHORT. PNG and WebP are never turned.
- Of an animated PNG the still picture counts. An animated WebP is refused.
- Profiles, gamma, texts and thumbnails change nothing, however broken they are.

The pixels of JPEG and PNG are those of the stages to the last bit. The colours of a lossy WebP differ at sharp edges.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from PIL import Image

from .errors import ImageError

MAX_PIXELS = 64_000_000

_SEGMENT = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])", re.DOTALL)  # a marker that a length follows, and the end
_END, _SCAN, _EXIF = b"\xd9", b"\xda", b"\xe1"
_TOLD = {0xE0, 0xEE}  # APP0 and APP14 say what the colours mean; other applications' segments and comments do not
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
}  # fmt: skip
_PNG = b"\x89PNG\r\n\x1a\n"
_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_GREY, _RGB = 0, 2  # colour types of PNG


def decode(encoded: bytes) -> Image.Image:
    """Return an encoded image as RGB, over white and upright; ImageError if it is none, or too large."""
    try:
        if encoded.startswith(b"\xff\xd8"):
            bare, orientation = _jpeg(encoded)
            image = _opened(bare, "JPEG").convert("RGB")
            return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image
        if encoded.startswith(_PNG):
            return _png_over_white(_png(encoded))
        if encoded[:4] == b"RIFF" and encoded[8:12] == b"WEBP":
            return _over_white(_opened(_webp(encoded), "WEBP"))
    except ImageError:
        raise
    except Exception as err:  # Pillow raises many kinds for broken bytes
        raise ImageError(f"not a readable image: {err}") from err
    raise ImageError("not a readable image: neither JPEG, PNG nor WebP")


def _opened(bare: bytes, kind: str, rawmode: str = "") -> Image.Image:
    """Read the pixels of a file, as Pillow calls them; rawmode is how a PNG's are to be unpacked, if not as usual."""
    with Image.open(io.BytesIO(bare), formats=(kind,)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ImageError(f"{image.width} x {image.height} pixels, want at most {MAX_PIXELS}")
        if rawmode:
            image.tile = [(*image.tile[0][:3], rawmode)]
        image.load()
        return image


def _over_white(image: Image.Image) -> Image.Image:
    if "A" not in image.getbands() and image.mode != "P":
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(image.convert("RGB"), mask=image.getchannel("A"))
    return white


def _jpeg(encoded: bytes) -> tuple[bytes, int]:
    """Return the segments of a JPEG that its pixels depend on, and its orientation, which is that of the last valid Exif block."""
    kept, orientation, at, scan = [b"\xff\xd8"], 1, 0, 0
    while (found := _SEGMENT.search(encoded, at)) and found[1] != _END:
        start = found.end()
        at = start + int.from_bytes(encoded[start : start + 2], "big")
        if at < start + 2 or at > len(encoded):
            break
        if found[1] == _EXIF:
            orientation = _orientation(encoded[start + 2 : at]) or orientation
        if found[1] == _SCAN and not scan:
            scan = start
        if not scan and (found[1][0] < 0xE0 or found[1][0] in _TOLD):
            kept.append(b"\xff" + found[1] + encoded[start:at])
    return b"".join(kept) + b"\xff" + _SCAN + encoded[scan:] if scan else encoded, orientation


def _orientation(segment: bytes) -> int:
    """Return tag 0x0112 of the first directory of an Exif segment, if it is a SHORT of 1 to 8; else 0."""
    tiff = segment[6:]
    if segment[:6] != b"Exif\0\0" or tiff[:4] not in (b"II*\0", b"MM\0*"):
        return 0
    order: Any = "little" if tiff[:2] == b"II" else "big"

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)

    first = number(4, 4)
    for at in range(first + 2, first + 2 + 12 * number(first, 2), 12):
        if at + 12 > len(tiff):
            return 0
        if number(at, 2) == 0x0112 and number(at + 2, 2) == 3:
            value = number(at + 8, 2)
            return value if 1 <= value <= 8 else 0
    return 0


def _png(encoded: bytes) -> bytes:
    """Return the chunks of a PNG that its pixels depend on."""
    kept, at, name = [_PNG], len(_PNG), b""
    while at + 12 <= len(encoded) and name != b"IEND":
        end = at + 12 + int.from_bytes(encoded[at : at + 4], "big")
        name = encoded[at + 4 : at + 8]
        if name in _CHUNKS:
            kept.append(encoded[at:end])
        at = end
    return b"".join(kept)


def _png_over_white(bare: bytes) -> Image.Image:
    depth, colour = bare[24], bare[25]
    image = _opened(bare, "PNG")
    key = image.info.get("transparency")
    if colour == _GREY:
        values = np.asarray(image)
        grey = values.astype(np.uint8) * 255 if depth == 1 else values >> 8 if depth == 16 else values
        if isinstance(key, int):
            # Pillow gives the key as it stands in the file, and pixels of fewer bits scaled to 8.
            grey = np.where(values == (key if depth == 16 else 255 * key // ((1 << depth) - 1) & 255), 255, grey)
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if colour == _RGB and key is not None:
        pixels = np.array(image)
        values = pixels
        if depth == 16:  # Pillow reads the upper halves; read as if they lay the other way round, it gives the lower ones
            values = pixels.astype(np.uint16) << 8 | np.asarray(_opened(bare, "PNG", "RGB;16L"))
        pixels[(values == np.array([k if depth == 16 else k & 255 for k in key])).all(2)] = 255
        return Image.fromarray(pixels)
    return _over_white(image)


def _webp(encoded: bytes) -> bytes:
    """Return a still WebP of its pixels and their alpha. Alpha counts where it is there, whatever the flags say."""
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(encoded) and not chunks.keys() & {b"VP8 ", b"VP8L"}:
        size = int.from_bytes(encoded[at + 4 : at + 8], "little")
        chunks[encoded[at : at + 4]] = encoded[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    if b"VP8L" in chunks:
        pixels = bytearray(chunks[b"VP8L"])
        pixels[4] |= 0x10  # the hint that there is alpha
        parts = [(b"VP8L", bytes(pixels))]
    elif b"VP8 " not in chunks:
        raise ImageError("not a readable image: a WebP without a still picture")
    elif b"ALPH" in chunks and b"VP8X" in chunks:
        parts = [(b"VP8X", b"\x10" + chunks[b"VP8X"][1:]), (b"ALPH", chunks[b"ALPH"]), (b"VP8 ", chunks[b"VP8 "])]
    else:
        parts = [(b"VP8 ", chunks[b"VP8 "])]
    body = b"WEBP" + b"".join(name + len(part).to_bytes(4, "little") + part + b"\0" * (len(part) % 2) for name, part in parts)
    return b"RIFF" + len(body).to_bytes(4, "little") + body

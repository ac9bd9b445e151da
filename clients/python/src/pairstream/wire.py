"""The codec: from msgpack to dataclasses and back, with the bounds of the Go programs.

A value is walked once. Every length is checked against the bytes that are there before anything is made of it, every
value against the type of its field, and columns become numpy views of the value. So decoding allocates no more than a
small multiple of the input, whatever a record claims. The rules are those of schemas/wellformed.go; go test ./schemas
-rewrite writes the limits, and the types that a field accepts.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
import typing
from typing import Any

import msgpack
import numpy as np

from .errors import InvalidError, MalformedError

MAX_DEPTH = 16  # nesting of arrays and maps below an unknown key
MAX_UNKNOWN_VALUES = 4_096  # values below unknown keys, in one record
MAX_OPEN_KEYS = 512  # unknown keys and free keys of the maps that are open at one time
MAX_VALUE_BYTES = 1_073_741_824  # of a record

MAX_BATCH = 65_536  # samples of a mini-batch
MAX_NOUNS = 1_048_576  # noun vocabulary of a group
MAX_MEASURES = 256  # values of a progress report
MAX_COLUMNS = 64  # columns of a pair

_NOTHING = memoryview(b"")


class Kind(enum.Enum):
    """The msgpack type of a field, with the range of its numbers."""

    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "str"
    BYTES = "bin"
    COLUMN = "bin "  # a bin that is a numpy array
    LIST = "array"
    MAP = "map"
    STRUCT = "map "
    SCALAR = "scalar"  # a bool, an integer, a float or a str


@dataclasses.dataclass(slots=True)
class Shape:
    """What the codec knows of a type."""

    kind: Kind
    size: int = 0  # BYTES: its exact length, if not 0; LIST, MAP: the most elements
    dtype: np.dtype[Any] | None = None  # of a COLUMN
    copy: bool = True  # BYTES: bytes of its own, not a view
    elem: Shape | None = None
    make: type | None = None  # the dataclass of a STRUCT
    fields: dict[bytes, Field] = dataclasses.field(default_factory=dict)
    reserved: bytes = b""  # a key that no record may have


@dataclasses.dataclass(slots=True)
class Field:
    """A key of a struct."""

    name: str
    shape: Shape
    zero: Any  # what stands for a key that is absent: a value, or a callable that makes one
    optional: bool  # left out when empty


class Class(enum.Enum):
    """What a msgpack code announces, whatever its width."""

    NIL = "nil"
    BOOL = "bool"
    INT = "int"
    BIG_UINT = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "str"
    BYTES = "bin"
    ARRAY = "array"
    MAP = "map"


_ACCEPTS = {
    Kind.BOOL: (Class.BOOL,),
    Kind.INT32: (Class.INT,),
    Kind.INT64: (Class.INT,),
    Kind.FLOAT32: (Class.INT, Class.FLOAT32),
    Kind.FLOAT64: (Class.INT, Class.FLOAT32, Class.FLOAT64),
    Kind.STRING: (Class.STRING,),
    Kind.BYTES: (Class.BYTES,),
    Kind.COLUMN: (Class.BYTES,),
    Kind.LIST: (Class.ARRAY,),
    Kind.MAP: (Class.MAP,),
    Kind.STRUCT: (Class.MAP,),
    Kind.SCALAR: (Class.BOOL, Class.INT, Class.FLOAT32, Class.FLOAT64, Class.STRING),
}

# For codes from 0xc4 on: the class, and how the number or length that follows is read.
_CODES: dict[int, tuple[Class, struct.Struct]] = {
    code: (of, struct.Struct(">" + form))
    for of, first, forms in (
        (Class.BYTES, 0xC4, "BHI"),
        (Class.FLOAT32, 0xCA, "f"),
        (Class.FLOAT64, 0xCB, "d"),
        (Class.INT, 0xCC, "BHIQ"),
        (Class.INT, 0xD0, "bhiq"),
        (Class.STRING, 0xD9, "BHI"),
        (Class.ARRAY, 0xDC, "HI"),
        (Class.MAP, 0xDE, "HI"),
    )
    for code, form in enumerate(forms, first)
}


class Walker:
    """A position in a value."""

    def __init__(self, value: bytes | bytearray | memoryview) -> None:
        self.view = memoryview(value).toreadonly().cast("B") if not isinstance(value, bytes) else memoryview(value)
        self.end = len(self.view)
        self.pos = 0
        self.unknown = 0
        self.open = 0
        self.late: list[InvalidError] = []  # what is wrong with values that are well-formed otherwise

    def malformed(self, what: str) -> MalformedError:
        return MalformedError(f"byte {self.pos}: {what}")

    def header(self) -> tuple[Class, Any]:
        """Read a code and what belongs to it: a number, or a length that the bytes which follow allow."""
        if self.pos >= self.end:
            raise self.malformed("the value ends where another was expected")
        code = self.view[self.pos]
        self.pos += 1
        if code <= 0x7F:
            return Class.INT, code
        if code >= 0xE0:
            return Class.INT, code - 0x100
        if code <= 0x8F:
            return self._container(Class.MAP, code & 0x0F)
        if code <= 0x9F:
            return self._container(Class.ARRAY, code & 0x0F)
        if code <= 0xBF:
            return self._run(Class.STRING, code & 0x1F)
        if code == 0xC0:
            return Class.NIL, None
        if code in (0xC2, 0xC3):
            return Class.BOOL, code == 0xC3
        if code not in _CODES:
            self.pos -= 1
            raise self.malformed(f"code {code:#x} is reserved or an extension type")
        of, form = _CODES[code]
        if self.end - self.pos < form.size:
            self.pos -= 1
            raise self.malformed("the value ends inside a number or a length")
        (n,) = form.unpack_from(self.view, self.pos)
        self.pos += form.size
        if of in (Class.BYTES, Class.STRING):
            return self._run(of, n)
        if of in (Class.ARRAY, Class.MAP):
            return self._container(of, n)
        if of is Class.INT and n >= 1 << 63:
            return Class.BIG_UINT, n
        return of, n

    def _run(self, of: Class, n: int) -> tuple[Class, int]:
        if n > self.end - self.pos:
            raise self.malformed(f"{of.value} of {n} bytes where {self.end - self.pos} are left")
        return of, n

    def _container(self, of: Class, n: int) -> tuple[Class, int]:
        """Check a count: every element takes a byte at least, every entry two."""
        if n * (2 if of is Class.MAP else 1) > self.end - self.pos:
            raise self.malformed(f"{of.value} of {n} elements where {self.end - self.pos} bytes are left")
        return of, n

    def take(self, n: int) -> memoryview:
        self.pos += n
        return self.view[self.pos - n : self.pos]

    def known(self, shape: Shape) -> Any:
        """Read one value that must have a shape."""
        of, n = self.header()
        if of not in _ACCEPTS[shape.kind]:
            raise InvalidError(f"{of.value}, want {shape.kind.value.strip()}")
        kind = shape.kind
        if kind is Kind.STRUCT:
            return self._structure(shape, n)
        if kind is Kind.STRING or of is Class.STRING:
            return self._text(self.take(n))
        if kind is Kind.BYTES:
            if shape.size and n != shape.size:
                raise InvalidError(f"{n} bytes, want {shape.size}")
            return bytes(self.take(n)) if shape.copy else self.take(n)
        if kind is Kind.COLUMN:
            return self._column(self.take(n), shape)
        if kind is Kind.INT32 and not -(1 << 31) <= n < 1 << 31:
            raise InvalidError(f"{n} does not fit int32")
        if kind is Kind.LIST:
            return self._list(shape, n)
        if kind is Kind.MAP:
            return self._free_map(shape, n)
        return float(n) if kind in (Kind.FLOAT32, Kind.FLOAT64) else n

    def _list(self, shape: Shape, n: int) -> list[Any]:
        assert shape.elem is not None
        if n > shape.size:
            raise InvalidError(f"{n} elements, want at most {shape.size}")
        out = []
        for i in range(n):
            try:
                out.append(self.known(shape.elem))
            except InvalidError as err:
                raise InvalidError(f"{i}: {err}") from None
        return out

    def _free_map(self, shape: Shape, n: int) -> dict[str, Any]:
        assert shape.elem is not None
        if n > shape.size:
            raise InvalidError(f"{n} keys, want at most {shape.size}")
        out: dict[bytes, Any] = {}
        base = self.open
        for _ in range(n):
            key = self._key()
            self._open_key(out, key)
            out[key] = self.known(shape.elem)
        self.open = base
        return {self._text(key): value for key, value in out.items()}

    def _text(self, raw: bytes | memoryview) -> str:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            self.late.append(InvalidError("a text is not UTF-8"))
            return ""

    def _column(self, raw: memoryview, shape: Shape) -> np.ndarray[Any, Any]:
        assert shape.dtype is not None
        if len(raw) % shape.dtype.itemsize:
            self.late.append(InvalidError(f"a column of {len(raw)} bytes, want a multiple of {shape.dtype.itemsize}"))
            return np.empty(0, dtype=shape.dtype)
        return np.frombuffer(raw, dtype=shape.dtype)

    def _structure(self, shape: Shape, n: int) -> Any:
        assert shape.make is not None
        values: dict[str, Any] = {}
        others: dict[bytes, None] = {}
        base = self.open
        for _ in range(n):
            key = self._key()
            field = shape.fields.get(key)
            if field is None:
                if key == shape.reserved:
                    raise InvalidError(f"key {key!r} is reserved")
                self._open_key(others, key)
                others[key] = None
                self._skip(1)
                continue
            if field.name in values:
                raise self.malformed(f"key {field.name!r} appears twice")
            if self.pos < self.end and self.view[self.pos] == 0xC0:  # nil: as if the key were absent
                self.pos += 1
                values[field.name] = _zero(field)
                continue
            try:
                values[field.name] = self.known(field.shape)
            except InvalidError as err:
                raise InvalidError(f"{field.name}: {err}") from None
        self.open = base
        for field in shape.fields.values():
            if field.name not in values:
                values[field.name] = _zero(field)
        return shape.make(**values)

    def _key(self) -> bytes:
        of, n = self.header()
        if of is not Class.STRING:
            raise self.malformed(f"map key is {of.value}, want str")
        return bytes(self.take(n))

    def _open_key(self, seen: dict[bytes, Any], key: bytes) -> None:
        """Note a key of an open map, and refuse it when the map has it already."""
        if key in seen:
            raise self.malformed(f"key {key[:64]!r} appears twice")
        if self.open == MAX_OPEN_KEYS:
            raise self.malformed(f"more than {MAX_OPEN_KEYS} unknown keys")
        self.open += 1

    def _skip(self, depth: int) -> None:
        """Pass over one value of any shape; depth is the number of containers around it."""
        self.unknown += 1
        if self.unknown > MAX_UNKNOWN_VALUES:
            raise self.malformed(f"more than {MAX_UNKNOWN_VALUES} values below unknown keys")
        of, n = self.header()
        if of in (Class.STRING, Class.BYTES):
            self.take(n)
        if of not in (Class.ARRAY, Class.MAP):
            return
        if depth == MAX_DEPTH:
            raise self.malformed(f"nested deeper than {MAX_DEPTH}")
        base, seen = self.open, dict[bytes, None]()
        for _ in range(n):
            if of is Class.MAP:
                key = self._key()
                self._open_key(seen, key)
                seen[key] = None
            self._skip(depth + 1)
        self.open = base


def _zero(field: Field) -> Any:
    return field.zero() if callable(field.zero) else field.zero


def decode(value: bytes | bytearray | memoryview, shape: Shape) -> Any:
    """Read exactly one record of a shape."""
    if len(value) > MAX_VALUE_BYTES:
        raise MalformedError(f"{len(value)} bytes, want at most {MAX_VALUE_BYTES}")
    w = Walker(value)
    record = w.known(shape)
    if w.pos != w.end:
        raise w.malformed(f"{w.end - w.pos} bytes after the end of the record")
    if w.late:
        raise w.late[0]
    return record


class Encoder:
    """Writes records: the same record always gives the same bytes, those of the Go programs."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogateescape")
        self._single = msgpack.Packer(use_single_float=True)

    def encode(self, record: Any, shape: Shape, extra: dict[str, str] | None = None) -> bytes:
        self._struct(record, shape, extra or {})
        return b"".join(self._parts)

    def _struct(self, record: Any, shape: Shape, extra: dict[str, str]) -> None:
        present = []
        for key, field in shape.fields.items():
            value = getattr(record, field.name)
            if not (field.optional and (value is None or _is_empty(value))):
                present.append((key, field, value))
        self._parts.append(self._packer.pack_map_header(len(present) + len(extra)))
        for key, field, value in present:
            self._parts.append(self._packer.pack(str(key, "ascii")))
            self._value(value, field.shape)
        for name, text in extra.items():
            self._parts += (self._packer.pack(name), self._packer.pack(text))

    def _value(self, value: Any, shape: Shape) -> None:
        kind, pack = shape.kind, self._packer.pack
        if kind is Kind.STRUCT:
            self._struct(value, shape, {})
        elif kind is Kind.COLUMN:
            assert shape.dtype is not None
            self._parts.append(pack(np.ascontiguousarray(value, dtype=shape.dtype).tobytes()))
        elif kind is Kind.BYTES:
            self._parts.append(pack(bytes(value)))
        elif kind is Kind.LIST:
            assert shape.elem is not None
            self._parts.append(self._packer.pack_array_header(len(value)))
            for v in value:
                self._value(v, shape.elem)
        elif kind is Kind.MAP:
            assert shape.elem is not None
            self._parts.append(self._packer.pack_map_header(len(value)))
            for name in sorted(value, key=lambda n: n.encode()):
                self._parts.append(pack(name))
                self._value(value[name], shape.elem)
        elif kind is Kind.FLOAT32:
            self._parts.append(self._single.pack(float(value)))
        elif kind is Kind.FLOAT64:
            self._parts.append(pack(float(value)))
        else:
            self._parts.append(pack(value))


def _is_empty(value: Any) -> bool:
    if isinstance(value, (np.ndarray, bytes, memoryview, str, list, dict)):
        return len(value) == 0
    return not value


def shape_of(record: type) -> Shape:
    """Work out the shape of a dataclass from the annotations of its fields."""
    return _shape(record)


def _shape(hint: Any) -> Shape:
    if typing.get_origin(hint) is typing.Annotated:
        shape = next((m for m in hint.__metadata__ if isinstance(m, Shape)), None)
        if shape is not None:
            return shape
        hint = typing.get_args(hint)[0]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _struct_shape(hint)
    args = [a for a in typing.get_args(hint) if a is not type(None)]
    if typing.get_origin(hint) is list:
        elem = _shape(args[0])
        return Shape(Kind.LIST, MAX_BATCH if elem.kind is Kind.STRUCT else MAX_NOUNS, elem=elem)
    if typing.get_origin(hint) is dict:
        return Shape(Kind.MAP, MAX_MEASURES, elem=_shape(args[1]))
    if len(args) == 1:  # X | None
        return _shape(args[0])
    plain = {bool: Kind.BOOL, str: Kind.STRING}
    if hint in plain:
        return Shape(plain[hint])
    raise TypeError(f"no shape for {hint}")


def _struct_shape(record: type) -> Shape:
    shape = Shape(Kind.STRUCT, make=record, reserved=getattr(record, "RESERVED_KEY", b""))
    hints = typing.get_type_hints(record, include_extras=True)
    for f in dataclasses.fields(record):
        of = _shape(hints[f.name])
        missing = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory
        shape.fields[f.name.encode()] = Field(
            f.name, of, _zero_of(of) if missing else default, bool(f.metadata.get("optional"))
        )
    return shape


def _zero_of(shape: Shape) -> Any:
    """Return what stands for an absent key: a value, or a callable that makes one."""
    if shape.kind is Kind.STRUCT:
        return lambda: shape.make(**{f.name: _zero(f) for f in shape.fields.values()})  # type: ignore[misc]
    if shape.kind is Kind.COLUMN:
        dtype = shape.dtype
        return lambda: np.empty(0, dtype=dtype)
    if shape.kind is Kind.BYTES:
        return bytes(shape.size) if shape.copy else _NOTHING
    zeros: dict[Kind, Any] = {
        Kind.BOOL: False, Kind.INT32: 0, Kind.INT64: 0, Kind.FLOAT32: 0.0, Kind.FLOAT64: 0.0, Kind.STRING: "", Kind.LIST: list, Kind.MAP: dict,
    }  # fmt: skip
    return zeros[shape.kind]

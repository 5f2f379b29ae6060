"""Number formats and their encoders: what ``kerf formats`` lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from kerf._library import Arena, call, enum, ffi, lib, text
from kerf._records import Record, read, table
from kerf.errors import ArgumentError

_ELEMENTS = enum("kerf_element", "KERF_ELEM_")
_GROUPS = enum("kerf_group_kind", "KERF_GROUP_")
_SCALES = enum("kerf_scale_kind", "KERF_SCALE_")
_SECONDS = enum("kerf_second_kind", "KERF_SECOND_")
_ZEROS = enum("kerf_zero_kind", "KERF_ZERO_")


@dataclasses.dataclass(frozen=True)
class Encoder(Record):
    """How the bytes of a format are chosen: any reader of the format reads all of its encoders.

    name:    "4/6"
    source:  the project, paper or function that defines it
    """

    name: str
    source: str


@dataclasses.dataclass(frozen=True)
class Format(Record):
    """What bytes mean.

    name:             "nvfp4"
    bits:             of one code
    element:          "e2m1", "s4", "nf4", ...
    geometry:         what shares a scale: "tensor", "row", "block", "tile", "flat", "none", or
                      "struct" for blocks of ggml
    group:            elements that share a scale (per side, for tiles), or 0
    scale:            type of a scale: "e4m3", "e8m0", "f32", "none", ...
    second:           second-level scale: "tensor", "nested" or "none"
    zero:             zero point: "code", "f32" or "none"
    default_encoder:  name of the encoder that a format alone stands for
    note:             one line about it
    encoders:         all of them, the default first
    """

    name: str
    bits: int
    element: str
    geometry: str
    group: int
    scale: str
    second: str
    zero: str
    default_encoder: str
    note: str
    encoders: tuple[Encoder, ...] = dataclasses.field(repr=False)

    @property
    def codecs(self) -> tuple[str, ...]:
        """What to give to encode and quantize: ("nvfp4:amax", "nvfp4:4/6", ...)."""
        return tuple(f"{self.name}:{e.name}" for e in self.encoders)


class Formats(tuple[Format, ...]):
    """The table of formats; an index is a number or a name."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return format_of(find_codec(key).format)
        return super().__getitem__(key)

    def _repr_html_(self) -> str:
        head = ("format", "bits", "element", "group", "scale", "encoders", "")
        rows = (
            (f.name, f.bits, f.element, f"{f.geometry} {f.group or ''}", f.scale)
            + (", ".join(e.name for e in f.encoders), f.note)
            for f in self
        )
        return table(head, rows)


def format_of(f: Any) -> Format:
    """A Format of a const kerf_format *."""
    encoders = (lib.kerf_encoder_at(f, i) for i in range(lib.kerf_encoder_count(f)))
    return read(
        Format,
        f,
        element=_ELEMENTS[f.element],
        geometry=_GROUPS[f.geometry],
        scale=_SCALES[f.scale],
        second=_SECONDS[f.second],
        zero=_ZEROS[f.zero],
        encoders=tuple(read(Encoder, e) for e in encoders),
    )


def formats() -> Formats:
    """Every format, in the order of the table; ``formats()["nvfp4"]`` is one of them."""
    return Formats(format_of(lib.kerf_format_at(i)) for i in range(lib.kerf_format_count()))


# --- codecs: "FORMAT[:ENCODER]" ----------------------------------------------------------------


def find_codec(name: str) -> Any:
    """A kerf_codec. ArgumentError names the nearest known word, UnsupportedError the encoders."""
    if not isinstance(name, str):
        raise ArgumentError(f"a format is a text such as 'nvfp4:4/6', not {name!r}")
    out = ffi.new("kerf_codec *")
    call(lib.kerf_codec_find, Arena().text(name), out)
    return out[0]  # which keeps the memory


def codec_name(codec: Any) -> str:
    """ "nvfp4:4/6" of a kerf_codec; "nvfp4" where no encoder is recorded, "" where no format is."""
    if codec.format == ffi.NULL:
        return ""
    out = ffi.new("char[64]")
    return text(lib.kerf_codec_name(codec, out, 64))


def find_codecs(names: str | Iterable[str]) -> tuple[list[Any], list[bool]]:
    """Codecs by name or by pattern, as ``-f`` takes them: "nvfp4", "int4*", "nvfp4:*", "all"; in the
    order of the table, and for each whether it was asked for by its name."""
    words = names.split(",") if isinstance(names, str) else list(names)
    arena = Arena()
    found = ffi.gc(ffi.new("kerf_codec_list *"), lib.kerf_codec_list_free)
    picked = ffi.new("size_t *")
    for word in words:
        if not isinstance(word, str):
            raise ArgumentError(f"a format is a text such as 'nvfp4:4/6', not {word!r}")
        call(lib.kerf_codec_list_add, found, arena.text(word), picked)
        if not picked[0]:
            raise ArgumentError(f"{word!r} picks no format; kerf.formats() lists them")
    codecs = [ffi.new("kerf_codec *", found.codec[i])[0] for i in range(found.count)]
    return codecs, [bool(found.named[i]) for i in range(found.count)]

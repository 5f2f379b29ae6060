"""Weight files and model folders, opened for reading."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from kerf import _arrays
from kerf._hub import model_path
from kerf._library import Arena, call, ffi, lib, text
from kerf._records import Record, table
from kerf.errors import ArgumentError, UnsupportedError
from kerf.formats import codec_name
from kerf.planes import PLANES, Planes, decode, empty_planes

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Tensor(Record):
    """A tensor as a model sees it; quantized, it is spread over several stored ones.

    name:    of the dense tensor
    role:    what it is in its model: "attention q", "norm", "MLP down"
    shape:   of the dense tensor
    dtype:   of the dense tensor, or what it was before it was quantized: "bf16"
    format:  "BF16", "nvfp4:4/6" or, of a GGUF file, "Q8_0"
    layout:  whose names its planes have, "" where it is dense
    nbytes:  of all that stores it
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    format: str
    layout: str
    nbytes: int

    @property
    def quantized(self) -> bool:
        """Whether it is stored in a few-bit format."""
        return bool(self.layout)


def model_shape(w: Any) -> tuple[int, ...]:
    """The shape that the model has a kerf_weight in: of some, [..., in, out]."""
    return _arrays.shape_tuple(w.stored if w.stored.rank else w.shape)


def tensor_of(w: Any) -> Tensor:
    """A Tensor of a const kerf_weight *."""
    name, role = ffi.new("char[64]"), ffi.new("char[64]")
    return Tensor(
        name=text(w.name),
        role=text(lib.kerf_place_text(ffi.addressof(w, "place"), role, 64)),
        shape=model_shape(w),
        dtype=_arrays.dtype_name(w.dtype),
        format=text(lib.kerf_weight_format(w, name, 64)),
        layout=text(w.layout.name) if w.layout != ffi.NULL else "",
        nbytes=lib.kerf_weight_bytes(w),
    )


class Checkpoint(Mapping[str, Any]):
    """An open model: name -> array. Arrays are read when they are asked for; quantized tensors are
    decoded to the type that they had before.

    Closed by ``close()``, by a with block, or when nothing refers to it any more. Any number of
    threads may read one checkpoint.
    """

    def __init__(self, path: Path) -> None:
        out = ffi.new("kerf_checkpoint **")
        found = model_path(path)
        call(lib.kerf_checkpoint_open, Arena().text(found), out)
        self._handle: Any = ffi.gc(out[0], lib.kerf_checkpoint_close)
        self.path = found

    # --- handles ---

    @property
    def handle(self) -> Any:
        """The kerf_checkpoint *, for the other calls of this package."""
        if self._handle is None:
            raise ArgumentError(f"{self.path} was closed")
        return self._handle

    def close(self) -> None:
        """Closes the files; arrays that were read stay."""
        if self._handle is not None:
            ffi.release(self._handle)
            self._handle = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _weights(self) -> Any:
        return lib.kerf_checkpoint_weights(self.handle)

    def _weight(self, name: str) -> Any:
        w = lib.kerf_weights_find(self._weights(), Arena().text(name))
        if w == ffi.NULL:
            raise KeyError(name)
        return w

    # --- names ---

    def __len__(self) -> int:
        return int(lib.kerf_weights_count(self._weights()))

    def __iter__(self) -> Iterator[str]:
        weights = self._weights()
        for i in range(lib.kerf_weights_count(weights)):
            yield text(lib.kerf_weights_at(weights, i).name)

    def __contains__(self, name: object) -> bool:
        weights = self._weights()
        known = isinstance(name, str)
        return known and lib.kerf_weights_find(weights, Arena().text(str(name))) != ffi.NULL

    def tensor(self, name: str) -> Tensor:
        """What there is under a name, without reading it."""
        return tensor_of(self._weight(name))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in the order of the files."""
        weights = self._weights()
        count = lib.kerf_weights_count(weights)
        return tuple(tensor_of(lib.kerf_weights_at(weights, i)) for i in range(count))

    @property
    def metadata(self) -> dict[str, str]:
        """The strings of the first file's __metadata__."""
        reader = lib.kerf_checkpoint_reader(self.handle)
        key, value, found = ffi.new("char **"), ffi.new("char **"), {}
        i = 0
        while lib.kerf_reader_metadata_at(reader, 0, i, key, value):
            found[text(key[0])] = text(value[0])
            i += 1
        return found

    # --- arrays ---

    def __getitem__(self, name: str) -> Any:
        """The dense array of a tensor. KeyError: there is none of this name; FileError, DataError:
        the file was cut or changed; UnsupportedError: blocks of GGUF that kerf does not decode."""
        return self.array(name)

    def array(self, name: str, dtype: str | None = None) -> Any:
        """The dense array; of quantized tensors in dtype "f32", "f16" or "bf16" (None: as it was)."""
        w = self._weight(name)
        if w.codec.format != ffi.NULL:
            array = decode(self.planes(name), dtype or _arrays.dtype_name(w.dtype))
            if w.stored.rank:  # blocks run along the inputs, whatever the model has last
                array = array.swapaxes(-1, -2).reshape(model_shape(w))
            return array
        reader = lib.kerf_checkpoint_reader(self.handle)
        stored = lib.kerf_reader_find(reader, w.name)
        if stored.block_type != ffi.NULL:
            raise UnsupportedError(f"{name}: blocks of {text(stored.block_type)} are not decoded")
        if dtype is not None and _arrays.dtype_id(dtype) != w.dtype:
            raise ArgumentError(f"{name} is {_arrays.dtype_name(w.dtype)}, not quantized: no {dtype}")
        array = _arrays.empty(stored.dtype, _arrays.shape_tuple(stored.shape))
        where = ffi.cast("void *", array.ctypes.data)
        call(lib.kerf_reader_read, reader, stored, 0, where, array.nbytes)
        return array

    def planes(self, name: str) -> Planes:
        """The planes of a quantized tensor, as the codec has them, whatever the layout stores: of
        [..., out, in], also where the model has [..., in, out]."""
        w = self._weight(name)
        if w.codec.format == ffi.NULL:
            raise ArgumentError(f"{name} is not quantized")
        made = empty_planes(_recorded(w.codec), w.geometry)
        reader = lib.kerf_checkpoint_reader(self.handle)
        for i, plane in enumerate(PLANES):
            array = getattr(made, plane)
            if array is not None:
                where = ffi.cast("void *", array.ctypes.data)
                call(lib.kerf_weight_read, reader, w, i, 0, where, array.nbytes)
        return made

    # --- shown ---

    def __repr__(self) -> str:
        if self._handle is None:
            return f"<kerf.Checkpoint {self.path!r}, closed>"
        quantized = lib.kerf_checkpoint_quantized(self.handle)
        return f"<kerf.Checkpoint {self.path!r}: {len(self)} tensors, {quantized} quantized>"

    def _repr_html_(self) -> str:
        rows = ((t.name, t.role, str(t.shape), t.format, t.layout, t.nbytes) for t in self.tensors)
        return table(("tensor", "role", "shape", "format", "layout", "bytes"), rows, self.path)


def _recorded(codec: Any) -> str:
    """ "nvfp4:4/6", or "nvfp4" where a checkpoint does not say how its codes were chosen."""
    if codec.encoder == ffi.NULL:
        return text(codec.format.name)
    return codec_name(codec)


def open(path: Path) -> Checkpoint:
    """Opens a model: a .safetensors, .safetensors.zst or .gguf file, a folder of safetensors, or
    "org/name" in the local cache of the Hugging Face hub.

    The header is validated, no tensor is read. Raises FileError, DataError (not a weight file,
    damaged, or files that contradict each other), LimitError, UnsupportedError.
    """
    return Checkpoint(path)


def source_of(model: Path | Checkpoint) -> Checkpoint:
    """A checkpoint as it was given, or opened from a path."""
    return model if isinstance(model, Checkpoint) else Checkpoint(model)


def open_calibration(path: Path) -> Any:
    """A kerf_calibration *, closed when nothing refers to it any more."""
    out = ffi.new("kerf_calibration **")
    call(lib.kerf_calibration_open, Arena().text(path), out)
    return ffi.gc(out[0], lib.kerf_calibration_close)

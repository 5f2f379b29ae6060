"""Weight files and model folders, opened for reading."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kerf import _arrays
from kerf._hub import model_path
from kerf._library import Arena, Handle, call, ffi, lib, text
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


class Checkpoint(Handle, Mapping[str, Any]):
    """An open model: name -> array. Arrays are read when they are asked for; quantized tensors are
    decoded to the type that they had before.

    Closed by ``close()``, by a with block, or when nothing refers to it any more. Any number of
    threads may read one checkpoint. It cannot be pickled or copied; processes that fork may use it.
    """

    _instead = "pass its path, and open that there"

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
        handle = self._handle
        if handle is None:
            raise ArgumentError(f"{self.path} was closed")
        return handle

    def close(self) -> None:
        """Closes the files, when calls that read them now, in other threads, have ended; arrays that
        were read stay."""
        self._handle = None  # the last reference closes them: every call has one of its own

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # A mapping would compare all arrays of both.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # --- names ---

    def __len__(self) -> int:
        handle = self.handle
        return int(lib.kerf_weights_count(_weights(handle)))

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            yield self._name(i)

    def _name(self, i: int) -> str:
        handle = self.handle
        return text(lib.kerf_weights_at(_weights(handle), i).name)

    def __contains__(self, name: object) -> bool:
        handle = self.handle
        return bool(_find(handle, name) != ffi.NULL)

    def tensor(self, name: str) -> Tensor:
        """What there is under a name, without reading it."""
        handle = self.handle
        return tensor_of(_weight(handle, name))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, in the order of the files."""
        handle = self.handle
        weights = _weights(handle)
        count = lib.kerf_weights_count(weights)
        return tuple(tensor_of(lib.kerf_weights_at(weights, i)) for i in range(count))

    @property
    def metadata(self) -> dict[str, str]:
        """The strings of the first file's __metadata__."""
        handle = self.handle
        reader = lib.kerf_checkpoint_reader(handle)
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
        """The dense array; of quantized tensors in dtype "f32", "f16" or "bf16" (None: as it was).
        Elements of less than a byte are the bytes of each row; where these are not whole, of all."""
        handle = self.handle
        w = _weight(handle, name)
        if w.codec.format != ffi.NULL:
            array = decode(_planes(handle, w), dtype or _arrays.dtype_name(w.dtype))
            if w.stored.rank:  # blocks run along the inputs, whatever the model has last
                array = array.swapaxes(-1, -2).reshape(model_shape(w))
            return array
        reader = lib.kerf_checkpoint_reader(handle)
        stored = lib.kerf_reader_find(reader, w.name)
        if stored.block_type != ffi.NULL:
            raise UnsupportedError(f"{name}: blocks of {text(stored.block_type)} are not decoded")
        if dtype is not None and _arrays.dtype_id(dtype) != w.dtype:
            raise ArgumentError(f"{name} is {_arrays.dtype_name(w.dtype)}, not quantized: no {dtype}")
        array = _arrays.empty(stored.dtype, _arrays.shape_tuple(stored.shape))
        if array.nbytes != stored.bytes:  # of elements below a byte: rows end in the middle of one
            array = np.empty(stored.bytes, np.uint8)
        where = ffi.cast("void *", array.ctypes.data)
        call(lib.kerf_reader_read, reader, stored, 0, where, array.nbytes)
        return array

    def planes(self, name: str) -> Planes:
        """The planes of a quantized tensor, as the codec has them, whatever the layout stores: of
        [..., out, in], also where the model has [..., in, out]."""
        handle = self.handle
        w = _weight(handle, name)
        if w.codec.format == ffi.NULL:
            raise ArgumentError(f"{name} is not quantized")
        return _planes(handle, w)

    # --- shown ---

    def __repr__(self) -> str:
        handle = self._handle
        if handle is None:
            return f"<kerf.Checkpoint {self.path!r}, closed>"
        count = lib.kerf_weights_count(_weights(handle))
        quantized = lib.kerf_checkpoint_quantized(handle)
        return f"<kerf.Checkpoint {self.path!r}: {count} tensors, {quantized} quantized>"

    def _repr_html_(self) -> str:
        rows = ((t.name, t.role, str(t.shape), t.format, t.layout, t.nbytes) for t in self.tensors)
        return table(("tensor", "role", "shape", "format", "layout", "bytes"), rows, self.path)


# What belongs to a handle is there as long as somebody refers to the handle.


def _weights(handle: Any) -> Any:
    return lib.kerf_checkpoint_weights(handle)


def _find(handle: Any, name: object) -> Any:
    """A const kerf_weight *, NULL for what is no name of one."""
    try:
        key = Arena().text(name) if isinstance(name, str) else ffi.NULL
    except ArgumentError:  # texts that no file can hold
        return ffi.NULL
    return ffi.NULL if key == ffi.NULL else lib.kerf_weights_find(_weights(handle), key)


def _weight(handle: Any, name: str) -> Any:
    w = _find(handle, name)
    if w == ffi.NULL:
        raise KeyError(name)
    return w


def _planes(handle: Any, w: Any) -> Planes:
    made = empty_planes(_recorded(w.codec), lib.kerf_weight_geometry(w))
    reader = lib.kerf_checkpoint_reader(handle)
    for i, plane in enumerate(PLANES):
        array = getattr(made, plane)
        if array is not None:
            where = ffi.cast("void *", array.ctypes.data)
            call(lib.kerf_weight_read, reader, w, i, 0, where, array.nbytes)
    return made


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
    """A checkpoint opened from a path; or the one that was given, which stays open for the result's
    sake, whoever closes it."""
    if not isinstance(model, Checkpoint):
        return Checkpoint(model)
    held = Checkpoint.__new__(Checkpoint)
    held._handle, held.path = model.handle, model.path
    return held


def open_calibration(path: Path) -> Any:
    """A kerf_calibration *, closed when nothing refers to it any more."""
    out = ffi.new("kerf_calibration **")
    call(lib.kerf_calibration_open, Arena().text(path), out)
    return ffi.gc(out[0], lib.kerf_calibration_close)


def calibration_for(asker: str, path: Path | None, feedback: bool, again: bool) -> tuple[Any, int]:
    """What score and advise take: a kerf_calibration *, or None, and the ``feedback`` of a request."""
    if feedback and path is None:
        raise ArgumentError(
            f"{asker}: feedback=True needs calibration=: kerf.calibrate(gram=True) makes one"
        )
    if again and not feedback:
        raise ArgumentError(f"{asker}: again=True is for feedback=True")
    if path is None:
        return None, 0
    calibrated = open_calibration(path)
    if feedback and lib.kerf_calibration_describe(calibrated).grams == 0:
        raise ArgumentError(
            f"{asker}: feedback=True needs Gram matrices, and {os.fspath(path)} has none: "
            "kerf.calibrate(gram=True) makes them"
        )
    return calibrated, 1 + bool(again) if feedback else 0

"""Arrays in and out: numpy, anything with __dlpack__, and bfloat16.

A View is memory that C may read or write, with the object that owns it. Nothing is copied, save for
numpy arrays that have gaps, which are read through a copy without.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerf._library import enum, ffi, lib, text
from kerf.errors import ArgumentError, BufferTooSmallError, UnsupportedError

try:
    import ml_dtypes
except ImportError:  # bfloat16 and the types of scales are then shown as unsigned integers
    ml_dtypes = None  # type: ignore[assignment]

DTYPES = {name: value for value, name in enum("kerf_dtype", "KERF_").items()}
_FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}  # numpy's name -> kerf's
_ALIASES = {**_FLOATS, "fp32": "f32", "fp16": "f16"}  # kerf's formats are called so
_PLAIN = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "u16": "uint16",
    "f16": "float16",
    "i32": "int32",
    "u32": "uint32",
    "f32": "float32",
    "c64": "complex64",
    "f64": "float64",
    "i64": "int64",
    "u64": "uint64",
}
_ML = {
    "bf16": "bfloat16",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "f8_e8m0": "float8_e8m0fnu",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
}


def dtype_id(name: str) -> int:
    """The kerf_dtype of "f32", "f16", "bf16" and so on, in upper or lower case."""
    try:
        return DTYPES[_ALIASES.get(name, name).lower()]
    except (KeyError, AttributeError):
        raise ArgumentError(f"dtype {name!r} is not known; f32, f16 and bf16 are") from None


def dtype_name(kind: int) -> str:
    """ "bf16" of a kerf_dtype."""
    return text(lib.kerf_dtype_name(kind)).lower()


def numpy_dtype(kind: int) -> np.dtype[Any]:
    """How numpy shows elements of a kerf_dtype: as what they are, where numpy or ml_dtypes has it,
    else as unsigned integers of their size; packed codes as bytes."""
    name = dtype_name(kind)
    if name in _PLAIN:
        return np.dtype(_PLAIN[name])
    if ml_dtypes is not None and name in _ML and hasattr(ml_dtypes, _ML[name]):
        kind_of: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML[name]))
        return kind_of
    return np.dtype(np.uint16 if lib.kerf_dtype_bits(kind) == 16 else np.uint8)


def shape_tuple(shape: Any) -> tuple[int, ...]:
    return tuple(shape.dim[i] for i in range(shape.rank))


def empty(kind: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """A new array for elements of a kerf_dtype; where they have less than a byte, for the bytes of
    each row."""
    bits = lib.kerf_dtype_bits(kind)
    if bits % 8:
        shape = (*shape[:-1], math.ceil(shape[-1] * bits / 8)) if shape else (1,)
    return np.empty(shape, numpy_dtype(kind))


@dataclasses.dataclass(frozen=True)
class View:
    """Memory of an array. dtype: a kerf_dtype, 0 where kerf has none of that kind. device: number of
    the GPU, None on the host."""

    address: int
    nbytes: int
    dtype: int
    shape: tuple[int, ...]
    owner: Any
    device: int | None = None

    def span(self) -> tuple[Any, int]:
        """For kerf_span and kerf_cspan."""
        return ffi.cast("void *", self.address), self.nbytes


# --- DLPack ------------------------------------------------------------------------------------

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
# (type code, bits) of DLDataType
_DL_DTYPES = {
    (2, 32): "f32",
    (2, 16): "f16",
    (4, 16): "bf16",
    (1, 8): "u8",
    (0, 8): "i8",
    (1, 16): "u16",
    (0, 16): "i16",
    (2, 64): "f64",
    (10, 8): "f8_e4m3",
    (12, 8): "f8_e5m2",
    (14, 8): "f8_e8m0",
}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, with which a DLManagedTensor begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _has_gaps(t: _Tensor, shape: tuple[int, ...]) -> bool:
    step = 1
    if not t.strides or 0 in shape:
        return False
    for i in reversed(range(len(shape))):
        if shape[i] != 1 and t.strides[i] != step:
            return True
        step *= shape[i]
    return False


def _dlpack_view(array: Any, stream: int | None) -> View:
    """The capsule is not renamed: while the View holds it the memory stays, then its own destructor
    gives it back."""
    kind, number = array.__dlpack_device__()
    on_gpu = int(kind) in (_CUDA, _CUDA_MANAGED)
    if not on_gpu and int(kind) not in (_CPU, _CUDA_HOST):
        raise UnsupportedError(f"an array on a device of DLPack type {int(kind)}: host and CUDA work")
    capsule = array.__dlpack__(stream=stream) if on_gpu else array.__dlpack__()
    t = ctypes.cast(_pointer_of(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    shape = tuple(t.shape[i] for i in range(t.ndim))
    if _has_gaps(t, shape):
        raise ArgumentError(f"an array of shape {shape} with gaps between its rows; copy it first")
    name = _DL_DTYPES.get((t.code, t.bits)) if t.lanes == 1 else None
    nbytes = math.prod(shape) * t.bits * t.lanes // 8
    address = (t.data or 0) + t.byte_offset
    device = int(number) if on_gpu else None
    return View(address, nbytes, DTYPES[name] if name else 0, shape, (capsule, array), device)


# --- numpy -------------------------------------------------------------------------------------


def _numpy_kind(dtype: np.dtype[Any]) -> int:
    for names in (_FLOATS, {v: k for k, v in _ML.items()}, {v: k for k, v in _PLAIN.items()}):
        if dtype.isnative and dtype.name in names:
            return DTYPES[names[dtype.name]]
    return 0


def _numpy_view(array: NDArray[Any], writable: bool) -> View:
    if isinstance(array, np.ma.MaskedArray):
        raise UnsupportedError("a masked array, whose mask has no place in any format: fill it first")
    if not array.flags.c_contiguous:
        if writable:
            raise ArgumentError(f"out, of shape {array.shape}, has gaps between its rows")
        array = np.ascontiguousarray(array)
    if writable and not array.flags.writeable:
        raise ArgumentError("out is read-only")
    return View(array.ctypes.data, array.nbytes, _numpy_kind(array.dtype), array.shape, array)


def view(array: Any, *, writable: bool = False, stream: int | None = None) -> View:
    """The memory of a numpy array, of anything with __dlpack__, or of what numpy makes an array of."""
    if isinstance(array, np.ndarray):
        return _numpy_view(array, writable)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _dlpack_view(array, stream)
    if writable:
        raise ArgumentError(f"out is a {type(array).__name__}, which C cannot write to")
    return _numpy_view(np.asarray(array), writable)


def floats(array: Any, dtype: str | None, *, writable: bool = False, stream: int | None = None) -> View:
    """view of an array of float32, float16 or bfloat16. dtype "bf16" reads uint16 as bfloat16."""
    v = view(array, writable=writable, stream=stream)
    kind = v.dtype
    if dtype is not None:
        kind = dtype_id(dtype)
        halves = kind in (DTYPES["bf16"], DTYPES["f16"])
        if v.dtype != kind and not (halves and v.dtype in (DTYPES["u16"], DTYPES["i16"])):
            raise ArgumentError(f"dtype {dtype!r} does not fit an array of {_shown(array)}")
    if not lib.kerf_dtype_is_float(kind):
        raise UnsupportedError(
            f"an array of {_shown(array)}: float32, float16 and bfloat16 (ml_dtypes, or uint16 with "
            'dtype="bf16") are encoded; convert it first'
        )
    return dataclasses.replace(v, dtype=kind)


def _shown(array: Any) -> str:
    return str(getattr(array, "dtype", type(array).__name__))


def require_apart(target: View, what: str, *sources: View | None) -> None:
    """ArgumentError: what is written overlaps what is read."""
    for v in sources:
        if v is None or v.device != target.device:
            continue
        if v.address < target.address + target.nbytes and target.address < v.address + v.nbytes:
            raise ArgumentError(f"{what} overlaps what is read")


def require(v: View, nbytes: int, what: str) -> View:
    """v, when it has that many bytes in host memory."""
    if v.device is not None:
        raise UnsupportedError(f"{what} is in GPU memory; copy it to the host first")
    if v.nbytes != nbytes:
        raise BufferTooSmallError(f"{what} has {v.nbytes} bytes, {nbytes} are needed")
    return v

"""Arrays in memory to the planes of a format, and back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from kerf import _arrays, _options
from kerf._arrays import View
from kerf._jobs import Progress, run
from kerf._library import call, ffi, lib
from kerf._records import Record, table
from kerf.errors import ArgumentError
from kerf.formats import Format, codec_name, find_codec, format_of

PLANES = ("codes", "scales", "second", "zeros")  # in the order of kerf_plane_id
_SMALL = 1 << 20  # elements: below, one thread is done sooner than another one is woken


def geometry(codec: Any, shape: tuple[int, ...]) -> Any:
    """A kerf_geometry *: how a tensor of this shape lies in this format."""
    if len(shape) > lib.KERF_MAX_RANK:
        raise ArgumentError(f"an array of {len(shape)} dimensions; {lib.KERF_MAX_RANK} at most")
    c_shape = ffi.new("kerf_shape *", {"rank": len(shape), "dim": list(shape)})
    g = ffi.new("kerf_geometry *")
    call(lib.kerf_geometry_init, g, codec.format, c_shape)
    return g


@dataclasses.dataclass(frozen=True, eq=False)
class Planes(Record):
    """A tensor in a few-bit format: what a checkpoint stores of it, one array for each plane. Equal to
    itself alone: compare its arrays.

    codec:   "nvfp4:4/6"
    shape:   of the dense tensor; the last dimension is a row, those before the last two count
             matrices (experts)
    codes:   packed codes, of formats below 8 bits as bytes, a row after the other
    scales:  one for each group, or None; E8M0 as uint8, as checkpoints have it
    second:  second-level scales, float32, or None
    zeros:   zero points, or None

    A plane may be a numpy array or anything with ``__dlpack__``, on a GPU too: see ``map``.
    """

    codec: str
    shape: tuple[int, ...]
    codes: Any
    scales: Any = None
    second: Any = None
    zeros: Any = None

    @property
    def format(self) -> Format:
        """The format of the codec."""
        return format_of(find_codec(self.codec).format)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return int(self._geometry().bytes)

    @property
    def bpw(self) -> float:
        """Bits per weight, all planes counted; 0 for an empty tensor."""
        return float(lib.kerf_geometry_bpw(self._geometry()))

    def map(self, function: Callable[[Any], Any]) -> Planes:
        """The same planes elsewhere: each numpy array, as a flat array of its bytes, through a
        function. ``planes.map(lambda a: torch.from_numpy(a).cuda())`` is what Gemv takes on a GPU.
        """
        moved: dict[str, Any] = {
            name: function(plane.reshape(-1).view("u1"))
            for name in PLANES
            if (plane := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **moved)

    def decode(self, dtype: str = "f32", **options: Any) -> Any:
        """``kerf.decode(self, dtype)``."""
        return decode(self, dtype, **options)

    def _geometry(self) -> Any:
        return geometry(find_codec(self.codec), self.shape)

    def _repr_html_(self) -> str:
        g = self._geometry()
        rows = [
            (n, _arrays.dtype_name(p.dtype).upper(), str(_arrays.shape_tuple(p.shape)), p.bytes)
            for n, p in zip(PLANES, g.plane)
            if p.dtype
        ]
        caption = f"{self.codec} {self.shape}: {self.bpw:.4g} bits per weight"
        return table(("plane", "type", "shape", "bytes"), rows, caption)


def plane_views(planes: Planes, g: Any, *, writable: bool = False, **where: Any) -> list[View | None]:
    """The memory of each plane that the format has."""
    out: list[View | None] = []
    for name, plane in zip(PLANES, g.plane):
        array = getattr(planes, name)
        if plane.dtype and array is None:
            raise ArgumentError(f"{planes.codec} has a plane {name!r}, which is None here")
        out.append(_arrays.view(array, writable=writable, **where) if plane.dtype else None)
    return out


def host_spans(kind: str, views: list[View | None], g: Any) -> Any:
    """kerf_span[KERF_PLANES] or kerf_cspan[...] of planes in host memory, of exactly their size."""
    spans = ffi.new(f"{kind}[]", len(PLANES))
    for name, v, plane, span in zip(PLANES, views, g.plane, spans):
        if v is not None:
            span.p, span.n = _arrays.require(v, plane.bytes, f"plane {name}").span()
    return spans


def empty_planes(codec: str, g: Any) -> Planes:
    """New numpy arrays for all planes."""
    arrays = {
        name: _arrays.empty(plane.dtype, _arrays.shape_tuple(plane.shape)) if plane.dtype else None
        for name, plane in zip(PLANES, g.plane)
    }
    return Planes(codec, _arrays.shape_tuple(g.shape), **arrays)


def _compute(
    function: Callable[[Any, Any, Any], int],
    elements: int,
    threads: int,
    progress: Progress | None,
    **options: Any,
) -> None:
    """Calls function(exec, job, err). Small arrays are done at once, on this thread alone; others in
    a thread of their own, so that Ctrl-C stops them."""
    device = options.get("device", "cpu")
    if elements <= _SMALL and not progress and device == "cpu":
        with _options.team(threads or 1, **options) as team:
            call(lambda err: function(team.member, ffi.NULL, err))
        return
    with _options.team(threads, **options) as team:
        run(lambda job, err: function(team.member, job, err), progress)


def encode(
    array: Any,
    codec: str,
    *,
    dtype: str | None = None,
    out: Planes | None = None,
    threads: int = 0,
    nan: _options.Nan = "error",
    device: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
) -> Planes:
    """The planes of an array in a format.

    array:     float32, float16 or bfloat16 in host memory, numpy or with ``__dlpack__``, up to 8
               dimensions; read where it lies
    codec:     "nvfp4:4/6"; "nvfp4" is the default encoder
    dtype:     "bf16": the array is uint16 and holds the bits of bfloat16
    out:       planes to write into, such as those of an earlier call
    threads:   0: all cores. Never changes a byte, nor do device and backend
    nan:       "error"; "zero": NaN and Inf become 0; "saturate": NaN becomes 0, Inf the largest number
    device:    "cpu", "cuda" or "cuda:N", where the library has CUDA
    backend:   "ref" is the scalar reference; None: the fastest
    progress:  called with each Event; what it raises stops the work

    Raises DataError (NaN or Inf; ``offset`` is the first such element), UnsupportedError (another
    type of numbers, or an encoder that needs another), ArgumentError, BufferTooSmallError,
    NoMemoryError.
    """
    wanted = find_codec(codec)
    source = _arrays.floats(array, dtype)
    _arrays.require(source, source.nbytes, "the array")
    g = geometry(wanted, source.shape)
    planes = empty_planes(codec_name(wanted), g) if out is None else out
    _check_out(planes, codec_name(wanted), source.shape)
    views = plane_views(planes, g, writable=True)
    for name, v in zip(PLANES, views):
        if v is not None:
            _arrays.require_apart(v, f"plane {name} of out", source)
    spans = host_spans("kerf_span", views, g)
    _compute(
        lambda who, job, err: lib.kerf_encode_matrix(
            g, wanted.encoder, source.span(), source.dtype, spans, who, job, err
        ),
        g.elements,
        threads,
        progress,
        nan=nan,
        device=device,
        backend=backend,
    )
    return planes


def _check_out(planes: Planes, codec: str, shape: tuple[int, ...]) -> None:
    if codec_name(find_codec(planes.codec)) != codec or tuple(planes.shape) != shape:
        raise ArgumentError(
            f"out holds {planes.codec} of shape {planes.shape}, not {codec} of shape {shape}"
        )


def decode(
    planes: Planes,
    dtype: str | None = None,
    *,
    out: Any = None,
    threads: int = 0,
    device: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
) -> Any:
    """The dense array of planes: one fp32 product for each level of scale, then one rounding to
    nearest even.

    planes:   in host memory; every byte pattern can be decoded, scales that mean NaN give NaN
    dtype:    "f32" (default), "f16" or "bf16", which is an ml_dtypes.bfloat16 array where that package
              is installed, else uint16
    out:      an array of this shape, or flat, to write into, numpy or with ``__dlpack__`` (a tensor of
              torch); its type is the type of the result, uint16 with dtype="bf16" too

    Returns out, or a new array of ``planes.shape``. Raises BufferTooSmallError, ArgumentError,
    UnsupportedError. Other arguments are those of encode.
    """
    wanted = find_codec(planes.codec)
    g = geometry(wanted, tuple(planes.shape))
    if out is None:
        out = _arrays.empty(_arrays.dtype_id(dtype or "f32"), tuple(planes.shape))
    target = _arrays.floats(out, dtype, writable=True)
    nbytes = math.prod(planes.shape) * lib.kerf_dtype_bits(target.dtype) // 8
    _arrays.require(target, nbytes, "out")
    if len(target.shape) != 1 and target.shape != tuple(planes.shape):
        raise ArgumentError(f"out has shape {target.shape}, expected {tuple(planes.shape)}")
    views = plane_views(planes, g)
    _arrays.require_apart(target, "out", *views)
    spans = host_spans("kerf_cspan", views, g)
    _compute(
        lambda who, job, err: lib.kerf_decode_matrix(
            g, spans, target.span(), target.dtype, who, job, err
        ),
        g.elements,
        threads,
        progress,
        device=device,
        backend=backend,
    )
    return out

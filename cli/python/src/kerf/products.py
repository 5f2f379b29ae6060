"""Y = W X for a quantized matrix W and up to 16 columns, straight from its planes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kerf import _arrays, _options
from kerf._arrays import View
from kerf._library import Handle, call, ffi, lib, text
from kerf.errors import ArgumentError, BufferTooSmallError
from kerf.formats import find_codec
from kerf.planes import PLANES, Planes, geometry, plane_views

if TYPE_CHECKING:
    from kerf.machines import Hardware


class Gemv(Handle):
    """A product that is planned once and run as often as needed.

    planes:   of a matrix [rows, cols], in host memory, or all of them on one GPU (tensors of torch or
              cupy, where the library has CUDA); they stay where they are and are kept alive
    columns:  1 to 16
    x, y:     types of X and Y: "f32", "f16" or "bf16"
    threads:  0: all cores; on a GPU not used
    backend:  "ref": the scalar reference; None: the fastest
    hardware: of this GPU, as Hardware.measure makes it: its tuning says which plans are faster there.
              None: kerf's own rules; on the processor there is nothing to tune

    Results are the same bits for any number of threads, and no further from the exact ones than the
    bound of <kerf/gemv.h>, whose factor is ``bound``. Raises UnsupportedError for types, columns or
    shapes that there is no product for.
    """

    _instead = "pass its planes, and plan it there"

    def __init__(
        self,
        planes: Planes,
        columns: int = 1,
        *,
        x: str = "bf16",
        y: str = "f32",
        threads: int = 0,
        backend: str | None = None,
        hardware: Hardware | None = None,
    ) -> None:
        if len(planes.shape) != 2:
            raise ArgumentError(f"W has shape {planes.shape}; a product takes one matrix")
        codec = find_codec(planes.codec)
        g = geometry(codec, tuple(planes.shape))
        self.shape = tuple(planes.shape)
        self.columns = columns
        self._x, self._y = _arrays.dtype_id(x), _arrays.dtype_id(y)
        self._weights = plane_views(planes, g)
        for name, v, plane in zip(PLANES, self._weights, g.plane):
            if v is not None and v.nbytes != plane.bytes:
                raise BufferTooSmallError(f"plane {name}: {v.nbytes} bytes, {plane.bytes} are needed")
        self.device = _one_device(self._weights)
        self._plan = self._make(codec, columns, threads, backend, hardware)
        self._workspace_bytes = lib.kerf_gemv_workspace(self._plan)

    def _make(
        self,
        codec: Any,
        columns: int,
        threads: int,
        backend: str | None,
        hardware: Hardware | None,
    ) -> Any:
        shape = ffi.new("kerf_gemv_shape *")
        shape.format = codec.format
        shape.rows, shape.cols = self.shape
        if not 0 <= columns <= lib.KERF_GEMV_COLUMNS:
            raise ArgumentError(f"{columns} columns; 1 to {lib.KERF_GEMV_COLUMNS}")
        shape.columns = columns
        shape.x, shape.y = self._x, self._y
        tuning = hardware.handle.tuning if hardware else ffi.NULL
        if hardware and tuning == ffi.NULL:
            raise ArgumentError(f"{hardware.name} has no tuning; Hardware.measure(device=0) makes one")
        out = ffi.new("kerf_gemv **")
        with _options.team(threads, backend=backend) as team:
            if self.device is not None:
                team.member.device = self._gpu = _options.open_device(self.device)
            call(lib.kerf_gemv_plan_create_tuned, out, shape, team.member, tuning)
        return ffi.gc(out[0], lib.kerf_gemv_plan_free)

    @property
    def backend(self) -> str:
        """What computes: "avx512", "ref", "cuda"; slower than asked for where there is no kernel:
        "cuda-any" takes an element at a time."""
        return text(lib.kerf_gemv_backend(self._plan))

    @property
    def bound(self) -> float:
        """The first factor of the error bound: |y - exact| <= bound * sum |w x| + x_bound * sum |w X|,
        before the last rounding, where X is the largest |x| of the same run of inputs: 0 to 63 and
        so on, or runs of 128 or 256. kerf/gemv.h says where, and how GGUF's blocks of two levels
        count."""
        return float(lib.kerf_gemv_bound(self._plan))

    @property
    def x_bound(self) -> float:
        """The second one: what rounding x costs. 0 where the backend leaves x as it is, or cuda."""
        return float(lib.kerf_gemv_x_bound(self._plan))

    def __call__(
        self,
        x: Any,
        *,
        out: Any = None,
        alpha: float = 1.0,
        bias: Any = None,
        residual: Any = None,
        stream: int = 0,
    ) -> Any:
        """alpha W x + bias + residual.

        x:         [cols], or [columns, cols], of the type that was planned, where the planes are
        out:       [rows] or [columns, rows]; None: a new numpy array. On a GPU it must be given
        bias:      [rows], of the type of y; residual: as out, which it may be; out may overlap
                   nothing else that is read
        stream:    a cudaStream_t as a number; on a GPU the call only enqueues

        Several threads may run one product at a time. Raises BufferTooSmallError, ArgumentError.
        """
        rows, cols = self.shape
        source = self._array(x, self._x, "x", cols, stream)
        if out is None:
            if self.device is not None:
                raise ArgumentError("a product on a GPU needs out: an array there")
            lead = source.shape[:-1]
            out = _arrays.empty(self._y, (*lead, rows))
        args = ffi.new("kerf_gemv_args *")
        args.x = source.span()
        y = self._array(out, self._y, "out", rows, stream, True)
        args.y = y.span()
        read: list[View | None] = [source, *self._weights]
        if residual is not None:
            added = self._array(residual, self._y, "residual", rows, stream)
            args.residual = added.span()
            read += [added] if added.address != y.address else []
        if bias is not None:
            shift = self._typed(bias, self._y, "bias", False, stream)
            if shift.shape != (rows,):
                raise ArgumentError(f"bias has shape {shift.shape}, expected ({rows},)")
            args.bias = shift.span()
            read.append(shift)
        _arrays.require_apart(y, "out", *read)
        for i, v in enumerate(self._weights):
            if v is not None:
                args.weights[i] = v.span()
        args.alpha = alpha
        if args.alpha == 0:  # in float32, where 0 stands for 1
            raise ArgumentError(f"alpha={alpha} multiplies by nothing")
        work = ffi.new("char[]", self._workspace_bytes or 1)
        args.workspace = (work, self._workspace_bytes)
        call(lib.kerf_gemv_run, self._plan, args, ffi.cast("void *", stream))
        return out

    def _typed(self, array: Any, kind: int, what: str, writable: bool, stream: int) -> View:
        v = _arrays.view(array, writable=writable, stream=stream or None)
        halves = ("u16", "i16")
        raw = v.dtype in [_arrays.DTYPES[h] for h in halves]
        if v.dtype != kind and not (raw and lib.kerf_dtype_bits(kind) == 16):
            raise ArgumentError(
                f"{what} is {_arrays.dtype_name(v.dtype)}, {_arrays.dtype_name(kind)} was planned"
            )
        if v.device != self.device:
            raise ArgumentError(f"{what} and the planes are not in the same memory")
        return dataclasses.replace(v, dtype=kind)

    def _array(
        self, array: Any, kind: int, what: str, length: int, stream: int, writable: bool = False
    ) -> View:
        v = self._typed(array, kind, what, writable, stream)
        alone = self.columns == 1 and v.shape == (length,)
        if not alone and v.shape != (self.columns, length):
            raise ArgumentError(f"{what} has shape {v.shape}, expected ({self.columns}, {length})")
        return v


def _one_device(views: list[View | None]) -> int | None:
    places = {v.device for v in views if v is not None}
    if len(places) > 1:
        raise ArgumentError("the planes are not all in the same memory")
    return places.pop()


def gemv(planes: Planes, x: Any, *, out: Any = None, y: str | None = None, **options: Any) -> Any:
    """W x of a quantized matrix and one or more columns, computed from its planes.

    planes:   of a matrix [rows, cols]
    x:        [cols] or [columns, cols], up to 16 columns; float32, float16 or bfloat16
    out, y:   where the result goes, or else its type (default "f32")
    options:  threads, backend and hardware as for Gemv; alpha, bias, residual and stream as for its call

    Returns [rows] or [columns, rows]. Who computes the same product again and again plans it once
    with Gemv.
    """
    run = {k: options.pop(k) for k in ("alpha", "bias", "residual", "stream") if k in options}
    stream = run.get("stream") or None
    source = _arrays.floats(x, options.pop("dtype", None), stream=stream)
    columns = source.shape[0] if len(source.shape) == 2 else 1
    kind = (
        _arrays.dtype_name(_arrays.floats(out, None, stream=stream).dtype) if out is not None else "f32"
    )
    plan = Gemv(planes, columns, x=_arrays.dtype_name(source.dtype), y=y or kind, **options)
    return plan(x, out=out, **run)

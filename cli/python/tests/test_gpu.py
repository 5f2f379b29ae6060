"""Products on a GPU: planes and vectors that are there, through DLPack. Where there is no GPU, what is
said of memory that is on one."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerf
from kerf import _arrays, _options
from kerf._library import call, ffi, lib


class OnGpu:
    """An array that says it is on GPU 0; address: where its memory there is."""

    def __init__(self, array: Any, address: int = 0) -> None:
        self.array, self.address = np.ascontiguousarray(array), address

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        is_bf16 = self.array.dtype == ml_dtypes.bfloat16
        capsule = (self.array.view("u2") if is_bf16 else self.array).__dlpack__()
        where = _arrays._pointer_of(capsule, b"dltensor")
        tensor = ctypes.cast(where, ctypes.POINTER(_arrays._Tensor)).contents
        tensor.code = 4 if is_bf16 else tensor.code
        if self.address:
            tensor.data = self.address
        return capsule


def gpus() -> int:
    count = ffi.new("int *")
    return count[0] if lib.kerf_device_count(count, ffi.NULL) == lib.KERF_OK else 0


def test_what_is_on_a_gpu_is_not_read_here(noise: Any) -> None:
    planes = kerf.encode(noise, "int8")
    there = planes.map(OnGpu)
    with pytest.raises(kerf.UnsupportedError, match="GPU memory; copy it to the host"):
        kerf.encode(OnGpu(noise), "int8")
    with pytest.raises(kerf.UnsupportedError, match="plane codes is in GPU memory"):
        kerf.decode(there)
    with pytest.raises(kerf.UnsupportedError, match="out is in GPU memory"):
        kerf.decode(planes, out=OnGpu(noise))
    with pytest.raises(kerf.ArgumentError, match="not in the same memory"):
        kerf.gemv(planes, OnGpu(noise[0]))
    with pytest.raises(kerf.ArgumentError, match="not all in the same memory"):
        kerf.Gemv(kerf.Planes("int8", (96, 256), there.codes, planes.scales))


@pytest.mark.skipif(gpus() > 0, reason="there is a GPU")
def test_without_a_gpu_its_products_are_refused(noise: Any) -> None:
    with pytest.raises((kerf.UnsupportedError, kerf.DeviceError)):
        kerf.Gemv(kerf.encode(noise, "int8").map(OnGpu))


@pytest.mark.skipif(gpus() == 0, reason="no GPU, or a library without CUDA")
@pytest.mark.parametrize("codec", ["nvfp4:4/6", "mxfp4", "int4-g128", "bf16"])
def test_gemv_on_a_gpu(codec: str, noise: Any) -> None:
    device = _options.open_device(0)
    stream = int(ffi.cast("uintptr_t", lib.kerf_device_stream(device)))
    held = []

    def to_gpu(array: Any) -> OnGpu:
        buffer = ffi.new("kerf_dbuf *")
        call(lib.kerf_dbuf_alloc, device, array.nbytes, buffer)
        held.append(ffi.gc(buffer, lib.kerf_dbuf_free))
        call(lib.kerf_dbuf_write, buffer, 0, ffi.cast("void *", array.ctypes.data), array.nbytes)
        return OnGpu(array, int(ffi.cast("uintptr_t", buffer.p)))

    planes = kerf.encode(noise, codec)
    x = noise[:2].astype(ml_dtypes.bfloat16)
    y = np.empty((2, 96), np.float32)
    product = kerf.Gemv(planes.map(to_gpu), 2, x="bf16", y="f32")
    with pytest.raises(kerf.ArgumentError, match="needs out"):
        product(to_gpu(x), stream=stream)
    product(to_gpu(x), out=to_gpu(y), stream=stream)
    call(lib.kerf_dbuf_read, held[-1], 0, ffi.cast("void *", y.ctypes.data), y.nbytes)
    w = planes.decode().astype(np.float64)
    exact = x.astype(np.float64) @ w.T
    most = np.abs(x.astype(np.float64)) @ np.abs(w).T * product.bound * 1.01 + 1e-20
    assert product.backend.startswith("cuda") and (np.abs(y - exact) <= most).all()
    held.clear()

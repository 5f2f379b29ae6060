"""Arrays in and out: against ml_dtypes and numpy, in place, by DLPack, and what is refused."""

from __future__ import annotations

import ctypes
import dataclasses
import multiprocessing
import subprocess
import sys
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerf
from kerf import _arrays

bf16 = ml_dtypes.bfloat16


# --- against others' arithmetic ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "theirs"),
    [
        ("fp32", np.float32),
        ("fp16", np.float16),
        ("bf16", bf16),
    ],
)
def test_casts_round_as_numpy_and_ml_dtypes_do(codec: str, theirs: Any, noise: Any) -> None:
    planes = kerf.encode(noise, codec)
    assert planes.codes.view("u1").tobytes() == noise.astype(theirs).tobytes()
    assert np.array_equal(planes.decode(), noise.astype(theirs).astype(np.float32))


@pytest.mark.parametrize(
    ("codec", "code", "most", "emax"),
    [
        ("mxfp8-e4m3:floor", ml_dtypes.float8_e4m3fn, 448.0, 8),
        ("mxfp8-e5m2:floor", ml_dtypes.float8_e5m2, 57344.0, 15),
    ],
)
def test_mxfp8_is_ocp_mx(codec: str, code: Any, most: float, emax: int, noise: Any) -> None:
    """Scale 2^(floor(log2 amax) - emax), elements rounded to nearest even, saturated."""
    planes = kerf.encode(noise, codec)
    blocks = noise.reshape(96, 8, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1))).astype(int) - emax
    scaled = np.clip(np.ldexp(blocks, -exponent[..., None]), -most, most)
    assert np.array_equal(planes.scales.reshape(96, 8), exponent + 127)
    assert np.array_equal(planes.codes.view("u1"), scaled.astype(code).view("u1").reshape(96, 256))
    decoded = np.ldexp(scaled.astype(code).astype(np.float32), exponent[..., None])
    assert np.array_equal(planes.decode(), decoded.reshape(96, 256))


def test_nvfp4_decodes_as_its_definition_says(noise: Any) -> None:
    planes = kerf.encode(noise.astype(bf16), "nvfp4:4/6")
    codes = np.stack([planes.codes & 15, planes.codes >> 4], -1).reshape(96, 256)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    scale = planes.scales.astype(np.float32) * planes.second
    assert planes.scales.dtype == ml_dtypes.float8_e4m3fn
    assert np.array_equal(planes.decode(), values * np.repeat(scale, 16, -1))
    assert planes.bpw == pytest.approx(4.5 + 32 / noise.size)
    assert planes.nbytes == sum(p.nbytes for p in (planes.codes, planes.scales, planes.second))


def test_every_codec_there_and_back(noise: Any) -> None:
    count = 0
    for f in kerf.formats():
        for codec in f.codecs:
            # Some encoders have scales of the type of the source.
            again = kerf.encode(noise.astype(np.float16 if f.scale == "f16" else bf16), codec).decode()
            error = np.square(again - noise).sum() / np.square(noise).sum()
            assert error < 0.75, codec
            count += 1
    assert count > 200


def test_formats_by_name() -> None:
    f = kerf.formats()["mxfp6-e2m3"]
    assert (f.bits, f.geometry, f.group, f.scale, f.element) == (6, "block", 32, "e8m0", "e2m3")
    assert f.codecs[0] == f"mxfp6-e2m3:{f.default_encoder}"
    assert kerf.formats()[0].name == "fp32"


# --- memory --------------------------------------------------------------------------------------


def test_out_is_written_in_place(noise: Any) -> None:
    planes = kerf.encode(noise, "mxfp4")
    other = kerf.encode(noise * 2, "mxfp4")
    assert kerf.encode(noise, "mxfp4", out=other) is other
    assert np.array_equal(planes.codes, other.codes)
    out = np.empty(noise.shape, np.float16)
    assert kerf.decode(planes, out=out) is out
    assert np.array_equal(out, planes.decode().astype(np.float16))


def test_sources_are_read_where_they_lie(noise: Any) -> None:
    v = _arrays.view(noise)
    assert v.address == noise.ctypes.data and v.owner is noise
    assert _arrays.view(Exported(noise)).address == noise.ctypes.data


def test_gaps_and_orders(noise: Any) -> None:
    whole = kerf.encode(np.ascontiguousarray(noise[:, ::2]), "mxfp4")
    assert np.array_equal(kerf.encode(noise[:, ::2], "mxfp4").codes, whole.codes)
    with pytest.raises(kerf.ArgumentError, match="gaps"):
        kerf.decode(whole, out=np.empty((96, 256), np.float32)[:, ::2])
    frozen = np.empty((96, 128), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(kerf.ArgumentError, match="read-only"):
        kerf.decode(whole, out=frozen)
    with pytest.raises(kerf.UnsupportedError, match="float32, float16 and bfloat16"):
        kerf.encode(noise.astype(">f4"), "mxfp4")


@pytest.mark.parametrize("shape", [(), (64,), (3, 64), (2, 3, 64), (0, 64), (5, 7)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    assert np.array_equal(kerf.encode(x, "int8").decode(), x)


def test_bits_of_bfloat16(noise: Any) -> None:
    typed = kerf.encode(noise.astype(bf16), "nvfp4:4/6")
    raw = noise.astype(bf16).view(np.uint16)
    assert np.array_equal(kerf.encode(raw, "nvfp4:4/6", dtype="bf16").codes, typed.codes)
    with pytest.raises(kerf.UnsupportedError, match="uint16"):
        kerf.encode(raw, "nvfp4")
    with pytest.raises(kerf.ArgumentError, match="does not fit"):
        kerf.encode(noise, "nvfp4", dtype="bf16")
    out = np.empty(noise.shape, np.uint16)
    kerf.decode(typed, "bf16", out=out)
    assert np.array_equal(out.view(bf16), kerf.decode(typed, "bf16"))


def test_without_ml_dtypes() -> None:
    """bfloat16 and scales are unsigned integers then; nothing else changes."""
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, kerf
planes = kerf.encode(np.full((2, 32), 0x3F80, np.uint16), "nvfp4", dtype="bf16")
assert planes.scales.dtype == np.uint8
again = planes.decode("bf16")
assert again.dtype == np.uint16 and (again == 0x3F80).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_planes_are_compared_as_objects(noise: Any) -> None:
    planes = kerf.encode(noise, "nvfp4")
    assert planes == planes and planes != kerf.encode(noise, "nvfp4") and planes in {planes}


def test_planes_elsewhere(noise: Any) -> None:
    planes = kerf.encode(noise, "nvfp4:4/6")
    moved = planes.map(lambda a: Exported(a.copy()))
    assert all(isinstance(p, Exported) for p in (moved.codes, moved.scales, moved.second))
    assert moved.zeros is None and np.array_equal(moved.decode(), planes.decode())
    assert np.array_equal(kerf.gemv(moved, noise[0]), kerf.gemv(planes, noise[0]))


# --- DLPack --------------------------------------------------------------------------------------


class Exported:
    """An array that is only reached through DLPack, as a tensor of torch is. kind: what its elements
    are called: (4, 16) is bfloat16, which numpy itself does not export."""

    def __init__(self, array: Any, kind: tuple[int, int] | None = None) -> None:
        self.array, self.kind = array, kind

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.array.__dlpack__(**options)
        if self.kind:
            where = _arrays._pointer_of(capsule, b"dltensor")
            tensor = ctypes.cast(where, ctypes.POINTER(_arrays._Tensor)).contents
            tensor.code, tensor.bits = self.kind
        return capsule


def test_dlpack(noise: Any) -> None:
    planes = kerf.encode(noise, "nvfp4:4/6")
    same = kerf.encode(Exported(noise), "nvfp4:4/6")
    assert np.array_equal(same.codes, planes.codes)
    out = np.empty_like(noise)
    kerf.decode(planes, out=Exported(out))
    assert np.array_equal(out, planes.decode())
    with pytest.raises(kerf.ArgumentError, match="gaps"):
        kerf.encode(Exported(noise[:, ::2]), "nvfp4")


def test_dlpack_of_nothing() -> None:
    """An array without elements has no gaps, whatever its strides are."""
    rows = np.lib.stride_tricks.as_strided(np.empty(1, np.float32), (0, 64), (4, 4))
    assert kerf.encode(Exported(rows), "mxfp4").shape == (0, 64)


def test_dlpack_of_one_row(noise: Any) -> None:
    """One row has no gap behind it, whatever its stride is."""
    row = np.lib.stride_tricks.as_strided(noise, (1, 64), (4096, 4))
    assert np.array_equal(kerf.encode(Exported(row), "fp32").decode(), row)


def test_out_has_the_shape(noise: Any) -> None:
    planes = kerf.encode(noise, "mxfp4")
    for shape in ((256, 96), (96, 256, 1)):
        with pytest.raises(kerf.ArgumentError, match="shape"):
            kerf.decode(planes, out=np.empty(shape, np.float32))
    flat = kerf.decode(planes, out=np.empty(noise.size, np.float32))
    assert np.array_equal(flat, planes.decode().reshape(-1))


def test_out_is_apart(noise: Any) -> None:
    planes = kerf.encode(noise, "fp32")
    inside = planes.codes.reshape(-1).view(np.float32).reshape(noise.shape)
    with pytest.raises(kerf.ArgumentError, match="overlaps"):
        kerf.decode(planes, out=inside)
    with pytest.raises(kerf.ArgumentError, match="overlaps"):
        kerf.encode(inside, "fp32", out=planes)
    n = noise.size
    memory = np.zeros(2 * n, np.float32)
    for codes, first in ((0, n // 2), (n // 2, 0)):
        part = dataclasses.replace(planes, codes=memory[codes : codes + n].view(np.uint8))
        with pytest.raises(kerf.ArgumentError, match="overlaps"):
            kerf.decode(part, out=memory[first : first + n])
    beside = dataclasses.replace(planes, codes=memory[:n].view(np.uint8))
    assert not kerf.decode(beside, out=memory[n:]).any()


def test_dlpack_of_bfloat16(noise: Any) -> None:
    raw = noise.astype(bf16).view(np.uint16)
    same = kerf.encode(Exported(raw, (4, 16)), "nvfp4:4/6")
    assert np.array_equal(same.codes, kerf.encode(noise.astype(bf16), "nvfp4:4/6").codes)
    out = np.empty(noise.shape, np.uint16)
    kerf.decode(same, out=Exported(out, (4, 16)))
    assert np.array_equal(out.view(bf16), same.decode("bf16"))


def test_dlpack_gives_memory_back(noise: Any) -> None:
    array = noise.copy()
    before = sys.getrefcount(array)
    for _ in range(10):
        kerf.encode(Exported(array), "mxfp4")
    assert sys.getrefcount(array) == before


# --- threads, and other processes ----------------------------------------------------------------


def test_the_bytes_are_the_same_for_all_who_compute(noise: Any) -> None:
    large = np.tile(noise, (60, 1))
    for codec in ("nvfp4:4/6", "nf4-dq", "int4-g128:search"):
        one = kerf.encode(large, codec, threads=1)
        for options in ({"threads": 3}, {"backend": "ref"}):
            other = kerf.encode(large, codec, **options)  # type: ignore[arg-type]
            assert np.array_equal(one.codes, other.codes)


def test_other_threads_go_on_meanwhile() -> None:
    x = np.ones((2048, 2048), np.float32)
    done = threading.Event()

    def work() -> None:
        kerf.encode(x, "nvfp4:sweep", threads=1)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    steps = 0
    while not done.wait(0.001):
        steps += 1
    thread.join()
    assert steps > 3


def _child(queue: Any) -> None:
    queue.put(kerf.encode(np.ones((1024, 2048), np.float32), "mxfp4").codes.sum())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on() -> None:
    """OpenMP's threads do not live in a child; those that waited here would have been lost there."""
    expected = kerf.encode(np.ones((1024, 2048), np.float32), "mxfp4", threads=2).codes.sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0


def _product(queue: Any, product: Any, x: Any) -> None:
    queue.put(product(x).sum())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_product_goes_on() -> None:
    """Its threads are those of the thread that calls it, and a child waited for them forever."""
    rows = np.random.default_rng(1).standard_normal((512, 2048), np.float32)
    product = kerf.Gemv(kerf.encode(rows, "int8"), x="f32", threads=2)
    expected = product(rows[0]).sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_product, args=(queue, product, rows[0]))
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.kill() if child.exitcode is None else None
        child.join(60)


def test_a_mask_is_not_lost(noise: Any) -> None:
    with pytest.raises(kerf.UnsupportedError, match="masked"):
        kerf.encode(np.ma.masked_array(noise, noise > 1), "nvfp4")

"""Products, against numpy in doubles and inside of their bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kerf


@pytest.mark.parametrize("codec", ["nvfp4:4/6", "mxfp6-e2m3", "int4-g128", "nf4", "bf16"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_gemv(codec: str, dtype: Any, noise: Any) -> None:
    planes = kerf.encode(noise, codec)
    x = noise[:3].astype(dtype)
    w = planes.decode().astype(np.float64)
    product = kerf.Gemv(planes, 3, x={"float32": "f32", "float16": "f16"}.get(x.dtype.name, "bf16"))
    y = product(x)
    exact = x.astype(np.float64) @ w.T
    size = np.abs(x.astype(np.float64))
    run = 256 if product.backend == "amx" else 64  # inputs that are rounded together: kerf/gemv.h
    near = np.maximum.reduceat(size, np.arange(0, w.shape[1], run), axis=1).repeat(run, axis=1)
    near = near[:, : w.shape[1]]
    most = (size * product.bound + near * product.x_bound) @ np.abs(w).T * 1.01 + 1e-30
    assert y.dtype == np.float32 and y.shape == (3, 96)
    assert (np.abs(y - exact) <= most).all()
    assert np.array_equal(kerf.gemv(planes, x), y)
    assert np.array_equal(kerf.gemv(planes, x, threads=1), y)


def test_tuning_of_a_machine(noise: Any, tmp_path: Path) -> None:
    planes = kerf.encode(noise, "nvfp4")
    with pytest.raises(kerf.ArgumentError, match="h200 has no tuning"):
        kerf.gemv(planes, noise[0], hardware=kerf.Hardware("h200"))
    kerf.Hardware("h200").save(tmp_path / "mine.json")
    machine = json.loads((tmp_path / "mine.json").read_text())
    machine["tuning"] = {"factors": {"wide": 2}, "rules": 3, "source": "a test", "date": "2026-11"}
    (tmp_path / "mine.json").write_text(json.dumps(machine))
    y = kerf.gemv(planes, noise[0], hardware=kerf.Hardware(tmp_path / "mine.json"))
    assert np.array_equal(y, kerf.gemv(planes, noise[0]))  # the processor has nothing to tune
    machine["tuning"]["rules"] = 999
    (tmp_path / "old.json").write_text(json.dumps(machine))
    with pytest.raises(kerf.UnsupportedError, match="find it anew"):
        kerf.gemv(planes, noise[0], hardware=kerf.Hardware(tmp_path / "old.json"))


def test_one_column_and_all_arguments(noise: Any) -> None:
    planes = kerf.encode(noise, "int8")
    x, bias = noise[0], np.arange(96, dtype=np.float32)
    y = kerf.gemv(planes, x)
    assert y.shape == (96,)
    out = np.empty(96, np.float32)
    again = kerf.gemv(planes, x, out=out, alpha=2.0, bias=bias, residual=bias)
    assert again is out and np.allclose(out, 2 * y + 2 * bias, rtol=1e-5)
    half = np.empty(96, np.float16)
    kerf.gemv(planes, x, out=half)
    assert np.allclose(half, y, rtol=1e-2, atol=1e-1)


def test_misuse(noise: Any) -> None:
    planes = kerf.encode(noise, "int8")
    product = kerf.Gemv(planes, x="f32")
    with pytest.raises(kerf.ArgumentError, match="expected"):
        product(noise[0, :255].copy())
    with pytest.raises(kerf.ArgumentError, match="bf16, f32 was planned"):
        product(noise[0].astype(ml_dtypes.bfloat16))
    with pytest.raises(kerf.ArgumentError, match="17 columns"):
        kerf.gemv(planes, np.tile(noise[:17, :], (1, 1)))
    with pytest.raises(kerf.ArgumentError, match="one matrix"):
        kerf.Gemv(kerf.encode(noise[None], "int8"))
    with pytest.raises(kerf.ArgumentError, match="alpha"):
        product(noise[0], alpha=0)
    assert product.backend


def test_a_plan_keeps_its_planes(noise: Any) -> None:
    product = kerf.Gemv(kerf.encode(noise, "int8"), x="f32")
    assert np.array_equal(product(noise[0]), kerf.gemv(kerf.encode(noise, "int8"), noise[0]))


def test_out_is_apart(noise: Any) -> None:
    """A product reads while it writes: x as out would give other numbers."""
    square = kerf.encode(noise[:, :96].copy(), "int8")
    product = kerf.Gemv(square, columns=4, x="f32")
    x = noise[:4, :96].copy()
    with pytest.raises(kerf.ArgumentError, match="overlaps"):
        product(x, out=x)
    y, added = product(x), noise[4:8, :96].copy()
    assert product(x, out=added, residual=added) is added  # an element is read before it is written
    assert np.allclose(added, y + noise[4:8, :96], rtol=1e-5)
    with pytest.raises(kerf.ArgumentError, match="overlaps"):
        kerf.gemv(square, x[0], out=added[0], bias=added[0])


def test_what_would_be_read_in_part_or_as_another_number(noise: Any) -> None:
    planes = kerf.encode(noise, "int8")
    for shape in ((97,), (95,), (8, 12)):
        with pytest.raises(kerf.ArgumentError, match="bias has shape"):
            kerf.gemv(planes, noise[0], bias=np.ones(shape, np.float32))
    for alpha in (0, 1e-60):  # 0 in float32, which stands for 1 in C
        with pytest.raises(kerf.ArgumentError, match="alpha"):
            kerf.gemv(planes, noise[0], alpha=alpha)

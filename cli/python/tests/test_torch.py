"""Tensors of PyTorch and its safetensors: there and back, every bit.

They need torch, which the package does not; where it is not installed, each of them says so.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MODEL, WEIGHT

import kerf
from kerf.planes import PLANES

try:
    torch: Any = importlib.import_module("torch")
    files: Any = importlib.import_module("safetensors.torch")
except ImportError as why:
    torch, files = None, None
    pytestmark = pytest.mark.skip(reason=f"PyTorch's tensors are not tried: {why}")

CODECS = ("nvfp4:4/6", "mxfp4", "mxfp8-e4m3", "fp8-e4m3", "int8", "int4-g128:search", "nf4-dq", "q4_k")


def bits(array: Any) -> bytes:
    """The bytes of a numpy array, or of a tensor of any type."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array).tobytes()
    flat = array.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes())


def tensor_of(plane: Any) -> Any:
    """A plane as a tensor of its own type and shape: ml_dtypes and torch call float8 the same."""
    name = plane.dtype.name
    if not name.startswith(("bfloat16", "float8")):
        return torch.from_numpy(plane.copy())
    return torch.from_numpy(plane.view(f"u{plane.itemsize}").copy()).view(getattr(torch, name))


def test_open_has_what_torch_loads() -> None:
    theirs = files.load_file(MODEL / "model.safetensors")
    with kerf.open(MODEL) as ours:
        assert set(ours) == set(theirs)
        for name, tensor in theirs.items():
            assert tensor.dtype == torch.bfloat16 and tuple(tensor.shape) == ours[name].shape
            assert bits(ours[name]) == bits(tensor), name


@pytest.mark.parametrize(
    ("codec", "layout"),
    [(c, None) for c in CODECS if c != "q4_k"]
    + [
        ("nvfp4:4/6", "compressed-tensors"),
        ("nvfp4:4/6", "modelopt"),
        ("mxfp4", "compressed-tensors"),
        ("fp8-e4m3-128x128", "deepseek"),
        ("nf4-dq", "bitsandbytes"),
    ],
)
def test_what_kerf_wrote_goes_through_torch(codec: str, layout: str | None, tmp_path: Path) -> None:
    """torch loads every tensor of it, writes it again, and kerf reads the same weights from that."""
    kerf.quantize(MODEL, tmp_path / "q", codec, layout=layout)
    loaded = files.load_file(tmp_path / "q/model.safetensors")
    again = tmp_path / "again"
    again.mkdir()
    for other in (tmp_path / "q").iterdir():
        if other.name != "model.safetensors":
            (again / other.name).write_bytes(other.read_bytes())
    with kerf.open(tmp_path / "q") as q:
        files.save_file(loaded, again / "model.safetensors", metadata=q.metadata)
        stored = sorted(bits(t) for t in loaded.values())
        with kerf.open(again) as r:
            assert list(r) and set(r) == set(q)
            for name in q:
                assert bits(q[name]) == bits(r[name]), name
                if not q.tensor(name).quantized:
                    assert bits(q[name]) == bits(loaded[name]), name
                elif layout is None:  # a plane is a tensor, as it lies
                    for plane in PLANES:
                        array = getattr(q.planes(name), plane)
                        assert array is None or bits(array) in stored, (name, plane)
    assert kerf.verify(MODEL, again, exact=True).passed


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_what_torch_wrote_is_quantized(dtype: str, tmp_path: Path) -> None:
    dense = {
        k: t.to(getattr(torch, dtype)) for k, t in files.load_file(MODEL / "model.safetensors").items()
    }
    files.save_file(dense, tmp_path / "dense.safetensors", metadata={"format": "pt"})
    kerf.quantize(tmp_path / "dense.safetensors", tmp_path / "q.safetensors", "nvfp4:4/6")
    expected = kerf.encode(dense[WEIGHT], "nvfp4:4/6")
    with kerf.open(tmp_path / "q.safetensors") as q:
        assert bits(q.planes(WEIGHT).codes) == bits(expected.codes)
        assert bits(q.planes(WEIGHT).scales) == bits(expected.scales)
    kerf.dequantize(tmp_path / "q.safetensors", tmp_path / "d.safetensors")
    back = files.load_file(tmp_path / "d.safetensors")
    out = torch.empty_like(dense[WEIGHT])
    kerf.decode(expected, out=out)
    assert back[WEIGHT].dtype == out.dtype and torch.equal(back[WEIGHT], out)
    assert set(back) == set(dense)


@pytest.mark.parametrize("codec", CODECS)
def test_planes_through_torch_and_its_files(codec: str, tmp_path: Path) -> None:
    tensor = files.load_file(MODEL / "model.safetensors")[WEIGHT]
    planes = kerf.encode(tensor, codec)
    assert bits(planes.codes) == bits(kerf.encode(tensor.float(), codec).codes)
    arrays = {n: getattr(planes, n) for n in PLANES if getattr(planes, n) is not None}
    files.save_file({n: tensor_of(a) for n, a in arrays.items()}, tmp_path / "planes.safetensors")
    loaded = files.load_file(tmp_path / "planes.safetensors")
    for name, array in arrays.items():
        assert bits(loaded[name]) == bits(array), name
        assert tuple(loaded[name].shape) == array.shape
    back = kerf.Planes(planes.codec, planes.shape, **loaded)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        here, there = (torch.empty(planes.shape, dtype=dtype) for _ in range(2))
        kerf.decode(planes, out=here)
        kerf.decode(back, out=there)
        assert bits(here) == bits(there)
    x = torch.linspace(-1, 1, math.prod(planes.shape[1:]), dtype=torch.float32)
    assert bits(kerf.gemv(back, x)) == bits(kerf.gemv(planes, x.numpy()))


def test_a_tensor_goes_in_and_comes_out(noise: Any) -> None:
    tensor = torch.from_numpy(noise).to(torch.bfloat16)
    planes = kerf.encode(tensor, "nvfp4:4/6")
    out = torch.empty_like(tensor)
    kerf.decode(planes, out=out)
    assert bits(out) == bits(planes.decode("bf16"))
    with pytest.raises(kerf.UnsupportedError):
        kerf.encode(tensor.to(torch.float64), "nvfp4:4/6")
    grown = torch.nn.Parameter(tensor.float())  # as it stands in a module
    assert bits(kerf.encode(grown.detach(), "nvfp4:4/6").codes) == bits(planes.codes)

"""Each status is a class of its own, and says where and what helps."""

from __future__ import annotations

import copy
import pickle
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MODEL

import kerf
from kerf._library import ffi, raise_error
from kerf.errors import BY_STATUS


def test_every_status_has_a_class() -> None:
    names = set(ffi.typeof("kerf_status").elements.values()) - {"KERF_OK"}
    assert set(BY_STATUS) == names
    for value, name in ffi.typeof("kerf_status").elements.items():
        if name == "KERF_OK":
            continue
        err = ffi.new("kerf_error *", {"status": value, "native": 5, "offset": 9, "text": b"why"})
        with pytest.raises(BY_STATUS[name], match="why") as caught:
            raise_error(value, err)
        e = caught.value
        assert isinstance(e, kerf.KerfError) and (e.status, e.native, e.offset) == (name, 5, 9)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (kerf.ArgumentError, ValueError),
        (kerf.DataError, ValueError),
        (kerf.FileError, OSError),
        (kerf.ExistsError, FileExistsError),
        (kerf.NoMemoryError, MemoryError),
        (kerf.UnsupportedError, NotImplementedError),
        (kerf.RangeError, OverflowError),
    ],
)
def test_they_are_what_python_expects(kind: Any, builtin: Any) -> None:
    assert issubclass(kind, builtin)


def test_what_is_near_is_named(noise: Any) -> None:
    with pytest.raises(kerf.ArgumentError, match="nvfp4"):
        kerf.encode(noise, "nvpf4")
    with pytest.raises(kerf.UnsupportedError, match="4/6"):
        kerf.encode(noise, "nvfp4:5/6")
    with pytest.raises(kerf.ArgumentError, match="format is a text"):
        kerf.encode(noise, 4)  # type: ignore[arg-type]


def test_not_a_number(noise: Any) -> None:
    noise[3, 5] = np.nan
    with pytest.raises(kerf.DataError) as caught:
        kerf.encode(noise, "nvfp4")
    assert caught.value.offset == 3 * 256 + 5
    zeroed = kerf.encode(noise, "int8", nan="zero").decode()
    assert zeroed[3, 5] == 0
    with pytest.raises(kerf.ArgumentError, match="error, zero, saturate"):
        kerf.encode(noise, "int8", nan="no")  # type: ignore[arg-type]


def test_planes_of_another_size(noise: Any) -> None:
    planes = kerf.encode(noise, "nvfp4")
    with pytest.raises(kerf.BufferTooSmallError, match="plane codes has 6144 bytes"):
        kerf.decode(kerf.Planes("nvfp4", (96, 256), planes.codes[:48], planes.scales, planes.second))
    with pytest.raises(kerf.ArgumentError, match="'second', which is None"):
        kerf.decode(kerf.Planes("nvfp4", (96, 256), planes.codes, planes.scales))
    with pytest.raises(kerf.BufferTooSmallError, match="out has"):
        kerf.decode(planes, out=np.empty((96, 255), np.float32))
    with pytest.raises(kerf.ArgumentError, match="out holds"):
        kerf.encode(noise[:48], "nvfp4", out=planes)


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_say_the_same(again: Any) -> None:
    for kind in (kerf.FileError, kerf.ExistsError, kerf.DataError, kerf.NoMemoryError):
        e = again(kind("a: why", 2, 7))
        assert type(e) is kind and str(e) == "a: why" and (e.native, e.offset) == (2, 7)
        assert getattr(e, "errno", 2) == 2


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_handles_are_of_this_process(again: Any, model: Path, noise: Any) -> None:
    """Files and memory of the library were shared without a word, or "cannot pickle CData"."""
    planes = kerf.encode(noise, "int8")
    with kerf.open(model) as source:
        for handle, instead in (
            (source, "pass its path, and open that there"),
            (kerf.Hardware("h200"), "pass its name, or the file that save writes"),
            (kerf.Gemv(planes, x="f32"), "pass its planes, and plan it there"),
        ):
            with pytest.raises(TypeError, match="cannot be pickled or copied") as caught:
                again(handle)
            assert type(handle).__name__ in str(caught.value) and instead in str(caught.value)
        assert len(source) > 0
    assert (pickle.loads(pickle.dumps(planes)).codes == planes.codes).all()


def test_no_text(model: Path, noise: Any) -> None:
    half = "\ud800"
    with pytest.raises(kerf.ArgumentError, match="no text"):
        kerf.encode(noise, "nvfp4" + half)
    with pytest.raises(kerf.ArgumentError, match="no text"):
        kerf.open(half)
    with pytest.raises(kerf.DataError) as caught:
        kerf.tokenize(model, "ab" + half)
    assert caught.value.offset == 2
    with pytest.raises(kerf.ArgumentError, match="expected a text"):
        kerf.tokenize(model, b"ab")  # type: ignore[arg-type]


def test_scores_of_nothing(model: Path, noise: Any) -> None:
    for source in (model, noise):
        with pytest.raises(kerf.ArgumentError, match="formats"):
            kerf.score(source, [])
    one = kerf.score(np.float32(3), "int8", imatrix=np.ones(1, np.float32))
    assert one["int8:amax"].elements == 1 and one["int8:amax"].weighted_t2 < 1e-4


def test_files(model: Path, tmp_path: Path) -> None:
    with pytest.raises(kerf.FileError) as caught:
        kerf.open(tmp_path / "nothing")
    assert isinstance(caught.value, OSError) and caught.value.errno == 2
    (tmp_path / "bad.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0notjson!")
    with pytest.raises(kerf.DataError, match=r"bad\.safetensors"):
        kerf.open(tmp_path / "bad.safetensors")
    with pytest.raises(kerf.ArgumentError, match="null byte"):
        kerf.open("a\0b")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/config.json").write_text("{}")
    with pytest.raises(kerf.ExistsError):
        kerf.quantize(model, tmp_path / "out", "nvfp4")
    with pytest.raises(kerf.ArgumentError, match="source"):
        kerf.quantize(model, model, "nvfp4", overwrite=True)


def test_misuse_of_quantize(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(kerf.ArgumentError, match="what into"):
        kerf.quantize(model, out)
    with pytest.raises(kerf.ArgumentError, match="out is missing"):
        kerf.quantize(model, None, "nvfp4")
    with pytest.raises(kerf.ArgumentError, match="modelopt"):
        kerf.quantize(model, out, "nvfp4", layout="modelop")
    with pytest.raises(kerf.ArgumentError, match="vllm is a program"):
        kerf.quantize(model, out, "nvfp4", layout="vllm")
    with pytest.raises(kerf.ArgumentError, match='in Python format="nvfp4:4/6"'):
        kerf.quantize(model, out, recipe="nvfp4:4/6")
    with pytest.raises(kerf.ArgumentError, match="given as recipe="):
        kerf.quantize(model, out, "recipe.json")
    for wrong in ("*down_proj*", ["*down_proj*"]):
        with pytest.raises(kerf.ArgumentError, match="formats by pattern"):
            kerf.quantize(model, out, "nvfp4", tensors=wrong)  # type: ignore[arg-type]
    with pytest.raises(kerf.ArgumentError, match="shell patterns"):
        kerf.quantize(model, out, "nvfp4", keep=5)  # type: ignore[arg-type]
    with pytest.raises(kerf.ArgumentError, match="no_such"):
        kerf.quantize(model, out, "nvfp4", keep=["*no_such*"])
    with pytest.raises(kerf.ArgumentError, match="no_such"):
        kerf.quantize(model, out, "nvfp4", tensors={"*no_such*": "nf4"})
    assert not out.exists()


def test_a_device_that_is_not_there(noise: Any) -> None:
    with pytest.raises(kerf.ArgumentError, match="cuda:all"):
        kerf.encode(noise, "nvfp4", device="gpu")
    with pytest.raises((kerf.UnsupportedError, kerf.DeviceError)):
        kerf.encode(noise, "nvfp4", device="cuda:99")
    with pytest.raises((kerf.UnsupportedError, kerf.DeviceError)):
        kerf.evaluate(MODEL, tokens=MODEL / "eval.u16", rows=slice(0, 1), device="cuda:99")


@pytest.mark.parametrize(
    "call",
    [
        lambda: kerf.Hardware(None),
        lambda: kerf.predict(None, (64, 64)),
        lambda: kerf.predict("h200", (64, 64), None),
        lambda: kerf.predict("h200", MODEL, None),
        lambda: kerf.advise_typical(MODEL / "config.json", None, bits=5),
        lambda: kerf.quantize(MODEL, None, tensors={None: "int8"}, dry_run=True),
    ],
)
def test_nothing_in_place_of_a_name(call: Any) -> None:
    """None where a name is needed: an exception, as for any other thing that is no text."""
    with pytest.raises((TypeError, kerf.ArgumentError)):
        call()


def test_recipes_are_mappings_of_any_kind() -> None:
    with pytest.raises(kerf.DataError, match="schema"):
        kerf.quantize(MODEL, None, recipe=types.MappingProxyType({"tensors": []}), dry_run=True)


def test_rows_are_a_slice() -> None:
    with pytest.raises(kerf.ArgumentError, match="rows"):
        kerf.evaluate(MODEL, tokens=[[1, 2, 3]], rows=0)  # type: ignore[arg-type]

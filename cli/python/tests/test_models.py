"""Models: the bytes of the command, the readers of others, and the figures of the documents."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import WEIGHT, Command, files_of
from safetensors.numpy import load_file, save_file

import kerf

# --- quantize, dequantize, convert: the command's bytes --------------------------------------------


@pytest.mark.parametrize(
    ("options", "args"),
    [
        ({"format": "nvfp4:4/6"}, ["-f", "nvfp4:4/6"]),
        (
            {"format": "nvfp4:4/6", "layout": "compressed-tensors"},
            ["-f", "nvfp4:4/6", "--layout", "compressed-tensors"],
        ),
        (
            {"format": "mxfp4", "tensors": {"*down_proj*": "mxfp6-e2m3", "*q_proj*": None}},
            ["-f", "mxfp4", "--tensor", "*down_proj*=mxfp6-e2m3", "--tensor", "*q_proj*=keep"],
        ),
        (
            {"format": "nf4", "keep": ["*layers.0.*"], "shard_bytes": 2_000_000},
            ["-f", "nf4", "--keep", "*layers.0.*", "--shard-size", "2MB"],
        ),
    ],
)
def test_quantize_writes_the_commands_bytes(
    options: dict[str, Any], args: list[str], model: Path, tmp_path: Path, command: Command
) -> None:
    result = kerf.quantize(model, tmp_path / "ours", **options)
    command("quantize", model, "-o", tmp_path / "theirs", *args)
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    said = command.json("quantize", model, *args, "--dry-run")
    assert result.written and result.quantized == said["totals"]["quantized"]
    assert result.bpw == pytest.approx(said["totals"]["bpw"])
    assert [d.codec or None for d in result.decisions] == [t["format"] for t in said["tensors"]]
    assert [d.bytes_out for d in result.decisions] == [t["bytes_out"] for t in said["tensors"]]


def test_dequantize_and_convert_write_the_commands_bytes(
    model: Path, tmp_path: Path, command: Command
) -> None:
    kerf.quantize(model, tmp_path / "q", "nvfp4:4/6")
    converted = kerf.convert(tmp_path / "q", tmp_path / "mo", "modelopt")
    command("convert", tmp_path / "q", "--layout", "modelopt", "-o", tmp_path / "mo2")
    assert files_of(tmp_path / "mo") == files_of(tmp_path / "mo2")
    assert converted.changed == 28 and converted.losses.groups > 0
    written = kerf.dequantize(tmp_path / "q", tmp_path / "d.safetensors", dtype="fp32")
    command("dequantize", tmp_path / "q", "--dtype", "fp32", "-o", tmp_path / "d2.safetensors")
    assert written.changed == 28
    one, other = (tmp_path / n for n in ("d.safetensors", "d2.safetensors"))
    assert one.read_bytes() == other.read_bytes()


def test_a_dry_run_writes_nothing(model: Path, tmp_path: Path) -> None:
    plan = kerf.quantize(model, tmp_path / "out", "nvfp4", dry_run=True)
    assert not plan.written and plan.quantized == 28 and not (tmp_path / "out").exists()


def test_a_model_that_has_its_matrices_turned(tmp_path: Path) -> None:
    """GPT-2 has [in, out]: blocks run along the inputs, and arrays come back as the model has them."""
    x = np.random.default_rng(5).standard_normal((64, 128), dtype=np.float32)
    (tmp_path / "gpt2").mkdir()
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 128}
    (tmp_path / "gpt2/config.json").write_text(json.dumps(config))
    name = "transformer.h.0.mlp.c_fc.weight"
    save_file({name: x}, tmp_path / "gpt2/model.safetensors")
    done = kerf.quantize(tmp_path / "gpt2", tmp_path / "q", "mxfp4", tensors={name: "mxfp4"})
    assert done.decisions[0].shape == (64, 128) and done.decisions[0].action == "quantize"
    with kerf.open(tmp_path / "gpt2") as source, kerf.open(tmp_path / "q") as q:
        assert np.array_equal(source[name], x) and source.tensor(name).role == "MLP up"
        planes = kerf.encode(np.ascontiguousarray(x.T), "mxfp4")
        assert q.planes(name).shape == (128, 64) and q.tensor(name).shape == (64, 128)
        assert np.array_equal(q.planes(name).codes, planes.codes)
        assert np.array_equal(q[name], planes.decode().T)


def test_what_cannot_be_told_is_noted(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text('{"model_type": "never_seen"}')
    save_file({"a.q_proj.weight": np.ones((64, 64), np.float32)}, tmp_path / "m/model.safetensors")
    assert any("never_seen" in n for n in kerf.quantize(tmp_path / "m", None, "nf4", dry_run=True).notes)


def test_advice_for_a_runtime(model: Path) -> None:
    advice = kerf.advise(model, bits=6, runtime="vLLM", hardware="h100")
    assert advice.recipe["layout"] and advice.total.low_us <= advice.total.us <= advice.total.high_us
    with pytest.raises(kerf.ArgumentError, match="vllm"):
        kerf.advise(model, bits=6, runtime="nothing")


def test_an_imatrix_for_the_encoders_that_take_one(model: Path, tmp_path: Path) -> None:
    imatrix = model / "imatrix.safetensors"
    kerf.quantize(model, tmp_path / "q.gguf", "q4_k:imatrix", imatrix=imatrix)
    with pytest.raises(kerf.KerfError, match="imatrix"):
        kerf.quantize(model, tmp_path / "q2.gguf", "q4_k:imatrix")


def test_advice_for_a_layout(model: Path, tmp_path: Path) -> None:
    few = ["nvfp4:4/6", "int8"]
    advice = kerf.advise(model, bits=6, formats=few, layout="compressed-tensors")
    assert advice.recipe["layout"] == "compressed-tensors"
    with pytest.raises(kerf.UnsupportedError, match="nf4"):
        kerf.advise(model, bits=6, formats=[*few, "nf4"], layout="compressed-tensors")
    done = kerf.quantize(model, tmp_path / "q", recipe=advice.recipe)
    assert done.layout == "compressed-tensors" and done.recipe and not done.recipe.broken


# --- open ------------------------------------------------------------------------------------------


def test_open_reads_what_safetensors_reads(model: Path) -> None:
    theirs = load_file(model / "model.safetensors")
    with kerf.open(model) as ours:
        assert set(ours) == set(theirs) and len(ours) == len(theirs)
        for name, array in theirs.items():
            assert ours[name].dtype == array.dtype and np.array_equal(ours[name], array)
        assert WEIGHT in ours and "nothing" not in ours and 3 not in ours
        with pytest.raises(KeyError):
            ours["nothing"]
    with pytest.raises(kerf.ArgumentError, match="closed"):
        ours[WEIGHT]
    assert "closed" in repr(ours)


def test_elements_below_a_byte(tmp_path: Path) -> None:
    """safetensors packs them without regard to rows."""
    for kind, shape, data in (
        ("F4", [2, 4], b"abcd"),
        ("F4", [2, 3], b"abc"),
        ("F6_E2M3", [4, 3], b"abcdefghi"),
    ):
        header = json.dumps(
            {"t": {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}}
        ).encode()
        (tmp_path / "t.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
        with kerf.open(tmp_path / "t.safetensors") as ours:
            assert ours["t"].tobytes() == data and ours["t"].dtype == np.uint8


def test_names_that_no_tensor_has(model: Path) -> None:
    with kerf.open(model) as ours:
        for name in (None, 3, "", "a\0b", "\ud800"):
            assert name not in ours and ours.get(name) is None  # type: ignore[call-overload]
            with pytest.raises(KeyError):
                ours.tensor(name)  # type: ignore[arg-type]


def test_models_are_compared_without_reading_them(model: Path) -> None:
    ours, theirs = kerf.open(model), kerf.open(model)
    assert ours == ours and ours != theirs and len({ours, theirs}) == 2


def test_closed_while_somebody_reads(model: Path, tmp_path: Path) -> None:
    """Who goes on afterwards is told; what has begun ends in order."""
    ours = kerf.open(model)
    names = iter(ours)
    assert next(names)
    ours.close()
    with pytest.raises(kerf.ArgumentError, match="closed"):
        next(names)

    ours = kerf.open(model)
    done = kerf.quantize(ours, tmp_path / "q", "nvfp4", progress=lambda _: ours.close())
    assert done.quantized == 28 and kerf.verify(model, tmp_path / "q").passed


def test_closed_by_another_thread(model: Path) -> None:
    ends = []

    def read(ours: kerf.Checkpoint, names: list[str]) -> None:
        try:
            while True:
                for name in names:
                    ours[name]
        except kerf.ArgumentError as e:
            ends.append(str(e))

    for _ in range(20):
        ours = kerf.open(model)
        threads = [threading.Thread(target=read, args=(ours, list(ours))) for _ in range(3)]
        for t in threads:
            t.start()
        ours.close()
        for t in threads:
            t.join()
    assert len(ends) == 60 and all("closed" in e for e in ends)


def test_planes_are_what_safetensors_reads(model: Path, tmp_path: Path) -> None:
    kerf.quantize(model, tmp_path / "q", "mxfp4")
    raw = load_file(tmp_path / "q/model.safetensors")
    with kerf.open(tmp_path / "q") as q, kerf.open(model) as source:
        planes = q.planes(WEIGHT)
        stored = {n: a for n, a in raw.items() if n.startswith(WEIGHT)}
        assert sorted(a.nbytes for a in stored.values()) == sorted(
            [planes.codes.nbytes, planes.scales.nbytes]
        )
        assert any(np.array_equal(a.view("u1"), planes.codes) for a in stored.values())
        again = kerf.encode(source[WEIGHT], "mxfp4")
        assert np.array_equal(again.codes, planes.codes)
        assert np.array_equal(q[WEIGHT], again.decode("bf16"))
        assert q.tensor(WEIGHT).format == "mxfp4:even" and q.tensor(WEIGHT).quantized
        with pytest.raises(kerf.ArgumentError, match="not quantized"):
            q.planes("model.norm.weight")


def test_every_type_of_tensor(tmp_path: Path) -> None:
    kinds = ["bool", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8", "u8"]
    arrays = {k: np.array([[1, 0], [0, 1]]).astype(k) for k in kinds}
    arrays["bf16"] = np.ones((2, 2), ml_dtypes.bfloat16)
    save_file(arrays, tmp_path / "all.safetensors")
    with kerf.open(tmp_path / "all.safetensors") as found:
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype and np.array_equal(found[name], array)


def test_models_of_the_hub(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As huggingface_hub lays them down: links from a snapshot to blobs, and a ref."""
    folder = tmp_path / "hub/models--kerf--tiny-llama"
    snapshot = folder / "snapshots/0123abcd"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("0123abcd")
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to((model / name).resolve())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with kerf.open("kerf/tiny-llama") as one, kerf.open(model) as other:
        assert list(one) == list(other)
    with pytest.raises(kerf.FileError):
        kerf.open("kerf/no-such-model")


# --- score, verify, inspect ------------------------------------------------------------------------


def same(figure: Any, said: Any) -> bool:
    return (said is None and math.isnan(figure)) or figure == pytest.approx(said, rel=1e-12)


def test_score_has_the_commands_figures(model: Path, command: Command) -> None:
    codecs = ["nvfp4:*", "mxfp4", "int8"]
    imatrix = model / "imatrix.safetensors"
    scores = kerf.score(model, codecs, imatrix=imatrix)
    said = command.json("score", model, "-f", ",".join(codecs), "--imatrix", imatrix, "--zstd-level", 0)
    assert scores.json()["schema"] == said["schema"]
    assert scores.json() == said
    assert len(scores) == 19 and len(scores.tensors) == 28
    best = scores["nvfp4:sweep"]
    assert best.t2 < scores["nvfp4:amax"].t2 and best.weighted_t2 > 0


def test_score_of_an_array_is_that_of_the_tensor(model: Path) -> None:
    one = kerf.score(model, ["nvfp4:4/6", "int4-g128"], only=[WEIGHT])
    with kerf.open(model) as m, kerf.open(model / "imatrix.safetensors") as i:
        array = kerf.score(m[WEIGHT], ["nvfp4:4/6", "int4-g128"])
        weighted = kerf.score(m[WEIGHT], "nvfp4:4/6", imatrix=i[WEIGHT])
        raw = kerf.score(m[WEIGHT].view("u2"), "nvfp4:4/6", dtype="bf16")
    for codec in one:
        assert array[codec].t2 == one[codec].t2 and array[codec].bytes == one[codec].bytes
    assert weighted["nvfp4:4/6"].weighted_t2 > 0 and raw["nvfp4:4/6"].t2 == one["nvfp4:4/6"].t2
    # by hand
    with kerf.open(model) as m:
        w = m[WEIGHT].astype(np.float64)
        d = kerf.encode(m[WEIGHT], "int4-g128").decode().astype(np.float64) - w
    assert array["int4-g128:amax"].t2 == pytest.approx((d * d).sum() / (w * w).sum(), rel=1e-9)


def test_verify(model: Path, tmp_path: Path, command: Command) -> None:
    kerf.quantize(model, tmp_path / "q", "nvfp4:4/6")
    v = kerf.verify(model, tmp_path / "q")
    assert v and v.measured == 28 and v.equal == 10 and not v.extra
    assert v.json() == command.json("verify", model, tmp_path / "q")
    tight = {"schema": "kerf.limits/1", "default": {"t2": 0.0076}}
    failed = kerf.verify(model, tmp_path / "q", tight)
    assert not failed and failed.over == sum(len(t.over) for t in failed.tensors) > 0
    assert kerf.verify(model, tmp_path / "q", v.limits)
    (tmp_path / "limits.json").write_text(json.dumps(tight))
    assert kerf.verify(model, tmp_path / "q", tmp_path / "limits.json").over == failed.over
    assert kerf.verify(model, tmp_path / "q", exact=True)
    assert v.junit.startswith("<?xml") and "down_proj" in v.junit and v.markdown
    total = kerf.score(model, "nvfp4:4/6")["nvfp4:4/6"]
    assert v.total.t2 == total.t2


def test_inspect(model: Path, tmp_path: Path) -> None:
    assert not kerf.inspect(model)
    kerf.quantize(model, tmp_path / "q.safetensors", "mxfp4")
    arrays = load_file(tmp_path / "q.safetensors")
    name = next(n for n, a in arrays.items() if WEIGHT in n and a.nbytes == 256 * 768 // 32)
    arrays[name].view("u1")[0, 0] = 255  # NaN
    with kerf.open(tmp_path / "q.safetensors") as q:
        metadata = q.metadata
    save_file(arrays, tmp_path / "bad.safetensors", metadata=metadata)
    found = kerf.inspect(tmp_path / "bad.safetensors")
    assert [f.tensor for f in found.errors] == [WEIGHT] and "NaN" in found.errors[0].text


# --- advise, recipes --------------------------------------------------------------------------------


def test_advise_is_the_commands_advice(model: Path, tmp_path: Path, command: Command) -> None:
    cache = tmp_path / "scores.json"
    advice = kerf.advise(model, bits=5, cache=cache)
    command(
        "advise", model, "--budget", "5bits", "--cache", cache, "-o", tmp_path / "r.json",
        "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert advice.recipe == json.loads((tmp_path / "r.json").read_text())
    assert round(advice.total.bits, 3) <= 5 and advice.gap == 0 and len(advice.choices) == 16
    assert advice.scored == 28 * len(kerf.candidates())
    assert "q4_k" in kerf.candidates("gguf") and "q4_k" not in kerf.candidates()
    assert kerf.candidates(runtime="llama.cpp") == kerf.candidates(layout="gguf")
    assert sum(c.t2 for c in advice.choices) == pytest.approx(advice.total.t2)
    advice.save(tmp_path / "ours.json")
    with pytest.raises(kerf.ExistsError):
        advice.save(tmp_path / "ours.json")
    for end in ("html", "md", "json"):
        advice.report(tmp_path / f"report.{end}")
    with pytest.raises(kerf.ArgumentError, match="html"):
        advice.report(tmp_path / "report.pdf")
    done = kerf.quantize(model, tmp_path / "q", recipe=tmp_path / "ours.json")
    assert done.recipe and (done.recipe.kept, done.recipe.broken) == (28, 0)


def test_a_broken_promise_is_said(model: Path, tmp_path: Path) -> None:
    recipe = kerf.advise(model, bits=5, formats=["nvfp4", "int8"]).recipe
    promise = recipe["promise"]["tensors"]
    next(iter(promise.values()))["t2"] *= 0.5
    with pytest.warns(kerf.BrokenPromiseWarning):
        done = kerf.quantize(model, tmp_path / "q", recipe=recipe)
    assert done.recipe and done.recipe.broken == 1 and done.recipe.first


def test_advise_with_a_machine(model: Path) -> None:
    few = ["nvfp4:4/6", "mxfp4", "int8"]
    advice = kerf.advise(model, formats=few, hardware="h200", minimise="time", t2=0.2)
    assert advice.total.us > 0 and advice.total.t2 <= 0.2
    with pytest.raises(kerf.LimitError):
        kerf.advise(model, bits=0.5, formats=few)
    with pytest.raises(kerf.ArgumentError):
        kerf.advise(model, formats=few)
    with pytest.raises(kerf.ArgumentError, match="alpha"):
        kerf.advise(model, bits=5, formats=few, alpha="deep")  # type: ignore[arg-type]
    flat = kerf.advise(model, bits=5, formats=few)
    ruled = kerf.advise(model, bits=5, formats=few, alpha={"*layers.0.*": 100.0})
    bits = [sum(c.bits for c in a.choices if ".0." in c.group) for a in (flat, ruled)]
    assert bits[1] > bits[0]


# --- machines ---------------------------------------------------------------------------------------


def test_predict_has_the_commands_figures(model: Path, command: Command) -> None:
    step = kerf.predict("h200", model, "nvfp4", batch=4)
    args = ("predict", "--hardware", "h200", "--model", model, "-f", "nvfp4", "--batch", 4)
    said = command.json(*args)["predictions"][0]
    assert step.weight_bytes == said["weight_bytes"] and step.fits == said["fits"]
    assert list(step.tokens_per_s) == pytest.approx(said["tokens_per_s"])
    assert [o.name for o in step.operators] == [o["name"] for o in said["operators"]]
    assert step.time.low_us == pytest.approx(said["low_us"]) and step.time.tier == said["tier"]
    assert not step.estimated and step.cache_bytes == said["cache_bytes"]
    one = kerf.predict("h200", (4096, 14336), "nvfp4")
    assert one.low_us <= one.us <= one.high_us and one.bound == "memory"


def test_several_gpus(model: Path, command: Command) -> None:
    step = kerf.predict("h200", model, "nvfp4", gpus=2)
    args = ("predict", "--hardware", "h200", "--model", model, "-f", "nvfp4", "--gpus", 2)
    said = command.json(*args)["predictions"][0]
    assert [o.name for o in step.operators] == [o["name"] for o in said["operators"]]
    assert step.gpu_bytes == said["gpu_bytes"] < step.weight_bytes + step.cache_bytes
    assert step.time.low_us == pytest.approx(said["low_us"])
    few = {"formats": ["nvfp4:4/6", "int8"], "bits": 6, "hardware": "h200"}
    one, two = (kerf.advise(model, gpus=n, **few) for n in (1, 2))
    said = command.json(
        "advise", model, "-f", "nvfp4:4/6,int8", "--budget", "6bits", "--hardware", "h200", "--gpus", 2
    )
    ours = two.json() | {"choose_s": said["choose_s"]}
    assert ours == said and two.total.us != one.total.us
    for wrong in ({"gpus": 0}, {"expert_parallel": True}, {"gpus": 3}):
        with pytest.raises(kerf.ArgumentError):
            kerf.predict("h200", model, **wrong)
        with pytest.raises(kerf.ArgumentError):
            kerf.advise(model, **few, **wrong)
    with pytest.raises(kerf.ArgumentError, match="hardware"):
        kerf.advise(model, bits=6, gpus=2)
    with pytest.raises(kerf.ArgumentError, match="gpus"):
        kerf.predict("h200", (64, 64), gpus=2)


def test_a_config_alone(model: Path, command: Command) -> None:
    config = model.parent / "configs/llama-3.1-8b.json"
    for gpus in (1, 2):
        t = kerf.advise_typical(config, "RTX-4090", tokens_per_s=60, runtime="vLLM", gpus=gpus)
        args = ("--hardware", "rtx4090", "--budget", "60tok/s", "--runtime", "vllm", "--gpus", gpus)
        said = command.json("advise", config, *args)
        assert t.best and t.best.codec == said["best"] and t.source == said["error_source"]
        assert [r.codec for r in t.rows] == [r["codec"] for r in said["formats"]]
        assert [r.high_us for r in t.rows] == pytest.approx([r["high_us"] for r in said["formats"]])
        assert [(r.fits, r.holds) for r in t.rows] == [(r["fits"], r["holds"]) for r in said["formats"]]
    assert not kerf.advise_typical(config, "gb10", tokens_per_s=60).best
    with pytest.raises(kerf.ArgumentError, match="gpus"):
        kerf.advise_typical(config, "h100", gpus=0)


def test_hardware(tmp_path: Path, command: Command) -> None:
    machine = kerf.Hardware("h200")
    assert "h200" in kerf.Hardware.names() and machine.kind == "gpu" and machine.arch == "sm_90"
    assert machine.facts["bandwidth_gbps"].value == 4800 and machine.facts["bandwidth_gbps"].source
    assert machine.json() == command.json("hardware", "h200")
    machine.save(tmp_path / "mine.json")
    assert kerf.Hardware(tmp_path / "mine.json").facts == machine.facts
    assert kerf.Hardware("NVIDIA H200").name == "h200"
    with pytest.raises(kerf.ArgumentError, match="unknown hardware"):
        kerf.Hardware("h20o")


def test_a_measured_machine() -> None:
    shapes = [(256, 256), (256, 512), (512, 256), (512, 512)]
    machine = kerf.Hardware.measure(["mxfp4"], shapes=shapes, trials=3, threads=1)
    assert machine.kind == "cpu" and machine.json()["fits"]
    assert kerf.predict(machine, (384, 384), "mxfp4").tier in ("fitted", "table")

"""What a calibration gives: an output's bytes, scores and advice, as the command has them; what runtimes
then round; and refusals."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import WEIGHT, Command, files_of
from safetensors.numpy import load_file, save_file

import kerf
from kerf import _library, checkpoints, writing

FEW: dict[str, Any] = {"length": 16, "rows": slice(0, 4)}
SCALED: dict[str, Any] = {"input_scales": True, "kv": "fp8-e4m3"}


@pytest.fixture
def plain(model: Path, tmp_path: Path) -> kerf.Calibration:
    """A calibration without Gram matrices."""
    return kerf.calibrate(model, tmp_path / "cal", tokens=model / "eval.u16", alpha="none", **FEW)


@pytest.fixture
def grams(model: Path, tmp_path: Path) -> kerf.Calibration:
    tokens = model / "eval.u16"
    return kerf.calibrate(model, tmp_path / "gram", tokens=tokens, alpha="none", gram=True, **FEW)


# --- the command's bytes ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["modelopt", "compressed-tensors"])
def test_scales_of_inputs_and_of_the_cache(
    layout: str, model: Path, tmp_path: Path, plain: kerf.Calibration, command: Command
) -> None:
    done = kerf.quantize(model, tmp_path / "ours", "nvfp4", layout=layout, calibration=plain, **SCALED)
    command(
        "quantize", model, "-f", "nvfp4", "--layout", layout, "--calibration", plain.path,
        "--input-scales", "--kv", "fp8-e4m3", "-o", tmp_path / "theirs",
    )  # fmt: skip
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    assert done.layout == layout and done.written
    with kerf.open(tmp_path / "ours") as ours:
        made = {"modelopt": "input_scale", "compressed-tensors": "input_global_scale"}[layout]
        assert WEIGHT.removesuffix("weight") + made in ours
        assert sum(name.endswith((".k_scale", ".v_scale")) for name in ours) == 8


@pytest.mark.parametrize("wish", ["input_scales", "kv"])
def test_one_without_the_other(wish: str, model: Path, tmp_path: Path, plain: kerf.Calibration) -> None:
    chosen = {wish: SCALED[wish]}
    kerf.quantize(model, tmp_path / "q", "nvfp4", layout="modelopt", calibration=plain, **chosen)
    with kerf.open(tmp_path / "q") as q:
        names = list(q)
    assert any(n.endswith("input_scale") for n in names) == (wish == "input_scales")
    assert any(n.endswith("k_scale") for n in names) == (wish == "kv")


@pytest.mark.parametrize("again", [False, True])
def test_error_feedback(
    again: bool, model: Path, tmp_path: Path, grams: kerf.Calibration, command: Command
) -> None:
    done = kerf.quantize(
        model, tmp_path / "ours", "nvfp4:4/6", calibration=tmp_path / "gram", feedback=True, again=again
    )
    options = ["--calibration", grams.path, "--feedback", *["--again"] * again]
    command("quantize", model, "-f", "nvfp4:4/6", *options, "-o", tmp_path / "theirs")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    kerf.quantize(model, tmp_path / "without", "nvfp4:4/6", calibration=grams)
    assert done.quantized == 28 and files_of(tmp_path / "ours") != files_of(tmp_path / "without")
    assert kerf.verify(model, tmp_path / "ours", exact=True, calibration=grams)
    assert not kerf.verify(model, tmp_path / "ours", exact=True)
    with pytest.raises(kerf.ArgumentError, match="exact=True"):
        kerf.verify(model, tmp_path / "ours", calibration=grams)


def test_a_recipe_asks_for_feedback(
    model: Path, tmp_path: Path, plain: kerf.Calibration, grams: kerf.Calibration, command: Command
) -> None:
    recipe = tmp_path / "r.json"
    options: list[object] = [
        "-f",
        "nvfp4:4/6,int8",
        "--budget",
        "5bits",
        "--feedback",
        "--calibration",
        grams.path,
    ]
    command("advise", model, *options, "-o", recipe)
    done = kerf.quantize(model, tmp_path / "ours", recipe=recipe, calibration=grams)
    assert done.recipe and (done.recipe.kept, done.recipe.broken) == (28, 0)
    options = ["--recipe", recipe, "--calibration", grams.path]
    command("quantize", model, *options, "-o", tmp_path / "theirs")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    text = json.loads(recipe.read_text())
    with pytest.raises(kerf.ArgumentError, match=r"the recipe asks for, needs .*calibrate\(gram=True"):
        kerf.quantize(model, None, recipe=text, dry_run=True)
    with pytest.raises(kerf.DataError, match="made with"):
        text["feedback"] = "0123456789abcdef"
        kerf.quantize(model, None, recipe=text, calibration=grams, dry_run=True)


def test_importance_of_columns(model: Path, tmp_path: Path, plain: kerf.Calibration) -> None:
    """calibration= weighs as imatrix= of its folder does, and gives way to another imatrix."""
    other = model / "imatrix.safetensors"
    for name, given in (
        ("a.gguf", {"calibration": plain}),
        ("b.gguf", {"imatrix": plain}),
        ("c.gguf", {"calibration": plain, "imatrix": other}),
        ("d.gguf", {"imatrix": other}),
    ):
        kerf.quantize(model, tmp_path / name, "q4_k:imatrix", **given)
    a, b, c, d = ((tmp_path / f"{n}.gguf").read_bytes() for n in "abcd")
    assert a == b != c == d


def test_the_calibration_outlives_the_plan(
    model: Path, plain: kerf.Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no name is left of it: the plan reads it until it is freed."""
    freed: list[str] = []
    opened: list[Any] = []

    def open_calibration(path: Any) -> Any:
        c = original(path)
        opened.append(weakref.ref(c, lambda _: freed.append("calibration")))
        return c

    class Lib:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        def kerf_plan_free(self, plan: Any) -> None:
            freed.append("plan" if opened[0]() is not None else "plan, too late")
            lib.kerf_plan_free(plan)

    original, lib = checkpoints.open_calibration, _library.lib
    monkeypatch.setattr(writing, "open_calibration", open_calibration)
    monkeypatch.setattr(writing, "lib", Lib())
    kerf.quantize(model, None, "nvfp4", layout="modelopt", calibration=plain, dry_run=True, **SCALED)
    gc.collect()
    assert freed == ["plan", "calibration"]


# --- score, advise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_scores_with_error_feedback(
    again: bool, model: Path, tmp_path: Path, grams: kerf.Calibration, command: Command
) -> None:
    """The command's figures, which are those of what quantize writes, and no others."""
    wish: dict[str, Any] = {"calibration": grams, "feedback": True, "again": again}
    scores = kerf.score(model, ["nvfp4:4/6", "int4-g128"], **wish)
    options = ["--calibration", grams.path, "--feedback", *["--again"] * again]
    line = ["score", model, "-f", "nvfp4:4/6,int4-g128", "--zstd-level", "0"]
    assert scores.json() == command.json(*line, *options)
    without = kerf.score(model, "nvfp4:4/6", calibration=grams)["nvfp4:4/6"]
    with_it = scores["nvfp4:4/6"]
    assert with_it.t2 > without.t2 and with_it.weighted_t2 < without.weighted_t2
    kerf.quantize(model, tmp_path / "q", "nvfp4:4/6", **wish)
    assert kerf.verify(model, tmp_path / "q").total.t2 == with_it.t2
    if again:
        once = kerf.score(model, "nvfp4:4/6", calibration=grams, feedback=True)["nvfp4:4/6"]
        assert with_it.weighted_t2 < once.weighted_t2


@pytest.mark.parametrize("again", [False, True])
def test_advice_with_error_feedback(
    again: bool, model: Path, tmp_path: Path, grams: kerf.Calibration, command: Command
) -> None:
    """The command's recipe; all that it promises is kept, though quantize is not told of feedback."""
    few = ["nvfp4:4/6", "int8"]
    wish: dict[str, Any] = {"bits": 5, "formats": few, "calibration": grams}
    advice = kerf.advise(model, feedback=True, again=again, **wish)
    options: list[object] = ["-f", ",".join(few), "--budget", "5bits", "--calibration", grams.path]
    command("advise", model, *options, "--feedback", *["--again"] * again, "-o", tmp_path / "r.json")
    assert advice.recipe == json.loads((tmp_path / "r.json").read_text())
    assert len(advice.recipe["feedback"]) == 16 and advice.scored == 56
    assert "feedback" not in kerf.advise(model, **wish).recipe
    assert advice.total.t2 < kerf.advise(model, **wish).total.t2
    if again:
        assert advice.recipe["feedback"] != kerf.advise(model, feedback=True, **wish).recipe["feedback"]
    done = kerf.quantize(model, tmp_path / "q", recipe=advice.recipe, calibration=grams)
    assert done.recipe and (done.recipe.kept, done.recipe.broken) == (28, 0)


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kv": "fp8-e4m3"}, r"kv='fp8-e4m3' needs calibration=: kerf\.calibrate\(\.\.\.\) makes"),
        ({"input_scales": True}, r"input_scales=True needs calibration="),
        ({"feedback": True}, r"feedback=True needs calibration=: kerf\.calibrate\(gram=True\)"),
        ({"again": True}, r"again=True is for feedback=True"),
    ],
)
def test_what_needs_a_calibration(options: dict[str, Any], says: str, model: Path) -> None:
    """Refusals speak of arguments, not of the command's options."""
    with pytest.raises(kerf.ArgumentError, match=says) as caught:
        kerf.quantize(model, None, "nvfp4", layout="modelopt", dry_run=True, **options)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("asker", ["score", "advise"])
def test_what_feedback_needs(asker: str, model: Path, plain: kerf.Calibration) -> None:
    def ask(**options: Any) -> None:
        {
            "score": lambda: kerf.score(model, "nvfp4", **options),
            "advise": lambda: kerf.advise(model, bits=5, formats=["nvfp4"], **options),
        }[asker]()

    for options, says in (
        ({"feedback": True}, r"feedback=True needs calibration=: kerf\.calibrate\(gram=True\)"),
        ({"feedback": True, "again": True}, r"feedback=True needs calibration="),
        ({"again": True}, r"again=True is for feedback=True"),
        ({"again": True, "calibration": plain}, r"again=True is for feedback=True"),
        (
            {"feedback": True, "calibration": plain},
            r"feedback=True needs Gram matrices, .*calibrate\(gram=True\)",
        ),
    ):
        with pytest.raises(kerf.ArgumentError, match=f"^{asker}: {says}") as caught:
            ask(**options)
        assert "--" not in str(caught.value)


@pytest.mark.parametrize("wish", ["feedback", "again"])
def test_an_array_has_no_error_feedback(wish: str) -> None:
    with pytest.raises(kerf.ArgumentError, match=f"{wish}: of a model"):
        kerf.score(np.ones((8, 64), np.float32), "int8", **{wish: True})


def test_calibrations_that_do_not_serve(model: Path, tmp_path: Path, plain: kerf.Calibration) -> None:
    def plan(source: Path = model, **options: Any) -> None:
        given: dict[str, Any] = {"layout": "modelopt", "calibration": plain, "dry_run": True} | options
        kerf.quantize(source, None, "nvfp4", **given)

    with pytest.raises(kerf.ArgumentError, match=r"kv='nvfp4': .*fp8-e4m3") as caught:
        plan(kv="nvfp4")
    assert "--" not in str(caught.value)
    with pytest.raises(kerf.ArgumentError, match="unknown format"):
        plan(kv="fp8-e4m4")
    with pytest.raises(kerf.ArgumentError, match="again=True is for feedback=True"):
        plan(again=True)
    with pytest.raises(kerf.KerfError, match="second moments"):
        plan(feedback=True)
    with pytest.raises(kerf.KerfError, match="modelopt and compressed-tensors"):
        plan(layout="kerf", input_scales=True)
    with pytest.raises(kerf.KerfError, match="no calibration"):
        plan(calibration=model)
    with pytest.raises(kerf.FileError):
        plan(calibration=tmp_path / "nothing")

    other = tmp_path / "other"
    shutil.copytree(model, other, copy_function=shutil.copyfile)
    arrays = load_file(other / "model.safetensors")
    arrays[WEIGHT] = np.zeros_like(arrays[WEIGHT])
    save_file(arrays, other / "model.safetensors")
    with pytest.raises(kerf.DataError, match="another model"):
        plan(other)


def test_the_calibration_is_not_replaced(model: Path, plain: kerf.Calibration) -> None:
    before = files_of(Path(plain.path))
    with pytest.raises(kerf.ArgumentError, match="source"):
        kerf.quantize(model, plain, "nvfp4", calibration=plain, overwrite=True)
    assert files_of(Path(plain.path)) == before


# --- evaluate --------------------------------------------------------------------------------------


def test_evaluate_rounds_as_runtimes_do(
    model: Path, tmp_path: Path, plain: kerf.Calibration, command: Command
) -> None:
    out, tokens = tmp_path / "q", model / "eval.u16"
    kerf.quantize(model, out, "nvfp4", layout="modelopt", calibration=plain, **SCALED)
    as_run = kerf.evaluate(model, out, tokens=tokens, **FEW)
    weights = kerf.evaluate(model, out, tokens=tokens, weights_only=True, **FEW)
    line = ["eval", model, out, "--tokens", tokens, "--length", "16", "--rows", "0:4"]
    for ours, said in (
        (as_run, command.json(*line)),
        (weights, command.json(*line, "--weights-only")),
    ):
        for m, theirs in ((ours.source, said["source"]), (ours.models[0], said["candidates"][0])):
            assert (list(m.inputs), m.cache or None) == (theirs["inputs"], theirs["cache"])
            assert m.loss == theirs["loss"]
    assert as_run.models[0].inputs == ("nvfp4",) and as_run.models[0].cache == "fp8-e4m3"
    assert "KV cache in fp8-e4m3" in str(as_run) and "fp8-e4m3" in as_run._repr_html_()
    assert (as_run.source.inputs, as_run.source.cache) == ((), "")
    assert (weights.models[0].inputs, weights.models[0].cache) == ((), "")
    assert as_run.models[0].kl > weights.models[0].kl > 0
    assert as_run.source.loss == weights.source.loss

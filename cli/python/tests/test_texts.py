"""A text through a model: the command's folders and figures, from files, arrays and texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import WEIGHT, Command, files_of

import kerf

FEW: dict[str, Any] = {"length": 16, "rows": slice(0, 4)}
LINE = ["--length", "16", "--rows", "0:4"]
TEXT = "Once there was a mill by the river, and the miller's daughter counted every sack. " * 8


def test_calibrate_writes_the_commands_folder(model: Path, tmp_path: Path, command: Command) -> None:
    tokens = model / "eval.u16"
    done = kerf.calibrate(model, tmp_path / "ours", tokens=tokens, draws=2, **FEW)
    command("calibrate", model, "--tokens", tokens, *LINE, "--alpha", 2, "-o", tmp_path / "theirs")
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    assert done.tokens == 64 and done.alpha_by == "kl" and len(done.weights) == 28
    assert done.weights[0].name == WEIGHT and done.weights[0].alpha is not None
    assert "±" in done._repr_html_() and done.json()["schema"] == "kerf.calibrate/1"
    with pytest.raises(kerf.ExistsError):
        kerf.calibrate(model, tmp_path / "ours", tokens=tokens, alpha="none", **FEW)

    # and what reads it
    few = ["nvfp4:4/6", "int8"]
    advice = kerf.advise(model, bits=5, formats=few, calibration=done)
    command(
        "advise", model, "--budget", "5bits", "-f", ",".join(few), "--calibration", tmp_path / "ours",
        "-o", tmp_path / "r.json",
    )  # fmt: skip
    assert [c.codec for c in advice.choices] != [
        c.codec for c in kerf.advise(model, bits=5, formats=few, alpha="depth").choices
    ]
    assert advice.recipe == json.loads((tmp_path / "r.json").read_text())
    said = command.json("score", model, "-f", "nvfp4:4/6", "--calibration", tmp_path / "ours")
    ours = kerf.score(model, "nvfp4:4/6", calibration=done).json()
    assert all(said["totals"][0][figure] == value for figure, value in ours["totals"][0].items())
    assert kerf.quantize(model, None, "q4_k", imatrix=done, dry_run=True).quantized == 28


def test_tokens_are_the_same_from_files_and_arrays(model: Path, tmp_path: Path) -> None:
    stream = np.fromfile(model / "eval.u16", "<u2")
    rows = stream[:64].reshape(4, 16)
    by_file = kerf.calibrate(model, tmp_path / "a", tokens=model / "eval.u16", alpha="none", **FEW)
    by_array = kerf.calibrate(model, tmp_path / "b", tokens=rows.astype(np.int64), alpha="none")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert by_file.weights == by_array.weights and by_file.weights[0].alpha is None
    assert by_file.alpha_by is None


def test_a_text_is_cut_by_the_models_tokenizer(model: Path, tmp_path: Path) -> None:
    tokens = kerf.tokenize(model, TEXT)
    assert tokens.dtype == np.uint32 and tokens.ndim == 1 and len(tokens) > 64
    assert len(kerf.tokenize(model, "")) == 0
    (tmp_path / "t.txt").write_text(TEXT)
    by_text = kerf.evaluate(model, text=tmp_path / "t.txt", **FEW)
    by_tokens = kerf.evaluate(model, tokens=tokens, **FEW)
    assert by_text.source == by_tokens.source and by_text.models == () and by_text.passed


def test_evaluate_has_the_commands_figures(model: Path, tmp_path: Path, command: Command) -> None:
    kerf.quantize(model, tmp_path / "q", "nvfp4:4/6")
    tokens, limits = model / "eval.u16", {"kl": 1e-6, "flips": 1}
    e = kerf.evaluate(model, tmp_path / "q", tokens=tokens, limits=limits, **FEW)
    said = command.json("eval", model, tmp_path / "q", "--tokens", tokens, *LINE)
    assert not e and e.models[0].over == ("kl",) and e.predictions == said["predictions"] == 60
    theirs = said["candidates"][0]
    for name in ("bits", "loss", "perplexity", "kl", "kl_p99", "flips", "perplexity_rise", "kl_most"):
        assert getattr(e.models[0], name) == theirs[name], name
    assert e.source.perplexity == said["source"]["perplexity"]
    assert list(e.models[0].drift) == theirs["drift"]
    assert "<failure" in e.junit and "perplexity" in e.markdown.lower()


def test_what_is_refused(model: Path, tmp_path: Path) -> None:
    tokens = model / "eval.u16"
    with pytest.raises(kerf.ArgumentError, match="text="):
        kerf.evaluate(model)
    with pytest.raises(kerf.ArgumentError, match="text="):
        kerf.evaluate(model, text="a", tokens="b")
    with pytest.raises(kerf.ArgumentError, match="integers"):
        kerf.evaluate(model, tokens=[0.5])
    with pytest.raises(kerf.DataError, match="vocabulary"):
        kerf.evaluate(model, tokens=[[1, 1 << 20]])
    with pytest.raises(kerf.DataError, match="vocabulary of 2048"):
        kerf.evaluate(model, tokens=[[1, 2048]])
    with pytest.raises(kerf.ArgumentError, match="kl=nan"):
        kerf.evaluate(model, tokens=tokens, limits={"kl": float("nan")}, **FEW)
    with pytest.raises(kerf.ArgumentError, match="length="):
        kerf.evaluate(model, tokens=[1, 2, 3], length=4)
    with pytest.raises(kerf.ArgumentError, match="no row"):
        kerf.evaluate(model, tokens=[[1, 2]], rows=slice(1, 2))
    with pytest.raises(kerf.ArgumentError, match="known are"):
        kerf.evaluate(model, tokens=tokens, limits={"klp": 1}, **FEW)
    with pytest.raises(kerf.FileError):
        kerf.evaluate(model, tokens=tmp_path / "none.u16")
    with pytest.raises(kerf.ArgumentError, match="calibration"):
        kerf.score(np.ones((8, 64), np.float32), "int8", calibration=tmp_path)


def test_a_column_of_tokens_is_a_stream(model: Path) -> None:
    tokens = np.fromfile(model / "eval.u16", "<u2")[:2500]
    column = kerf.evaluate(model, tokens=tokens.reshape(-1, 1), rows=slice(0, 1))
    assert column.length == 256
    assert column.source == kerf.evaluate(model, tokens=tokens, rows=slice(0, 1)).source


def test_calibrate_is_stopped_by_what_progress_raises(model: Path, tmp_path: Path) -> None:
    def progress(_e: kerf.Event) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        kerf.calibrate(model, tmp_path / "c", tokens=model / "eval.u16", progress=progress, **FEW)
    assert list(tmp_path.iterdir()) == []


def test_rows_begin_as_texts_do(model: Path, tmp_path: Path) -> None:
    begins = tmp_path / "begins"
    shutil.copytree(model, begins, copy_function=shutil.copyfile)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [3]}},
    }
    (begins / "tokenizer.json").write_text(json.dumps(tokenizer))
    stream = np.fromfile(model / "eval.u16", "<u2")[:60]
    rows = np.insert(stream.reshape(4, 15), 0, 3, axis=1)
    ours = kerf.evaluate(begins, tokens=model / "eval.u16", bos=True, **FEW)
    assert ours.json()["source"] == kerf.evaluate(begins, tokens=rows).json()["source"]
    assert (
        ours.json()["source"] != kerf.evaluate(begins, tokens=model / "eval.u16", **FEW).json()["source"]
    )
    with pytest.raises(kerf.UnsupportedError, match="no template"):
        kerf.evaluate(model, tokens=model / "eval.u16", bos=True, **FEW)
    with pytest.raises(kerf.ArgumentError, match="array"):
        kerf.evaluate(begins, tokens=rows, bos=True)

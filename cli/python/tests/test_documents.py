"""What people read: examples run, docstrings are there, notebooks get tables."""

from __future__ import annotations

import builtins
import dataclasses
import html.parser
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import MODEL, ROOT

import kerf
from kerf import errors

README = (ROOT / "cli/python/README.md").read_text()


@pytest.fixture
def beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(MODEL, tmp_path / "model")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("beside_the_model")
def test_examples_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert len(blocks) >= 8
    assert said[0] == "True t2 7.56e-03 at 4.50 bits per weight"
    assert f"`{said[0]}`" in README
    assert "False" in said and "ExistsError KERF_E_EXISTS" in said and "True 0" in said
    assert "('nvfp4',) fp8-e4m3 True" in said


def test_the_first_script_is_five_lines() -> None:
    first = re.findall(r"```python\n(.*?)```", README, re.S)[0]
    assert len([line for line in first.splitlines() if line]) <= 5


@pytest.mark.usefixtures("beside_the_model")
@pytest.mark.parametrize("module", [kerf, errors])
def test_examples_of_modules(module: Any, tmp_path: Path) -> None:
    lines = inspect.getdoc(module).splitlines()  # type: ignore[union-attr]
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    assert "kerf." in code
    exec(code, {"kerf": kerf})


def public() -> list[Any]:
    found = []
    for name in kerf.__all__:
        thing = getattr(kerf, name)
        found.append(thing)
        if inspect.isclass(thing) and thing.__module__.startswith("kerf"):
            for k, member in vars(thing).items():
                is_ours = callable(member) or isinstance(member, (property, classmethod))
                if is_ours and not k.startswith("_") and not hasattr(builtins, k):
                    found.append(member)
    return found


def test_everything_public_is_said() -> None:
    assert set(kerf.__all__) <= set(dir(kerf))
    for thing in public():
        if thing is kerf.Progress:
            continue
        assert inspect.getdoc(thing), thing
    for name in kerf.__all__:
        thing = getattr(kerf, name)
        if dataclasses.is_dataclass(thing):
            assert thing.__dataclass_params__.frozen, name  # type: ignore[attr-defined]


def test_every_argument_is_said() -> None:
    """Where a docstring leaves an argument to another function, it names that function."""
    shared = {"threads", "nan", "device", "backend", "progress", "overwrite", "resume"}
    shared |= {"shard_bytes", "zstd_level", "keep", "only", "every", "options", "out"}
    told = (kerf.encode, kerf.decode, kerf.quantize, kerf.score, kerf.advise, kerf.predict)
    for function in (*told, kerf.calibrate, kerf.evaluate, kerf.tokenize):
        text = inspect.getdoc(function) or ""
        for name in inspect.signature(function).parameters:
            assert re.search(rf"\b{name}\b", text) or name in shared, (function, name)


class Page(html.parser.HTMLParser):
    """Every tag that is opened is closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_notebooks_get_tables(tmp_path: Path, noise: Any) -> None:
    done = kerf.quantize(MODEL, tmp_path / "q", "nvfp4")
    shown = [
        kerf.formats(),
        kerf.formats()[0],
        kerf.encode(noise, "nvfp4"),
        kerf.open(MODEL),
        kerf.open(MODEL).tensors[0],
        done,
        done.decisions[0],
        kerf.verify(MODEL, tmp_path / "q"),
        kerf.inspect(tmp_path / "q"),
        kerf.score(noise, ["nvfp4:*", "mxfp4"]),
        kerf.Hardware("h200"),
        kerf.predict("h200", MODEL),
        kerf.predict("h200", (64, 64)),
        kerf.evaluate(MODEL, tmp_path / "q", tokens=MODEL / "eval.u16", length=8, rows=slice(0, 1)),
    ]
    for thing in shown:
        assert Page(thing._repr_html_()).cells >= 4, thing


def test_advice_is_a_page_in_a_frame() -> None:
    advice = kerf.advise(MODEL, bits=5, formats=["nvfp4", "int8"])
    outer = advice._repr_html_()
    Page(outer)
    assert outer.count("<iframe") == 1 and "<script" not in outer and "&lt;svg" in outer
    assert "nvfp4:amax" in str(advice)


def test_results_print_as_the_command_does(tmp_path: Path) -> None:
    """print(result) has a row for everything, and no column is left out."""
    verdict = kerf.verify(MODEL, MODEL, by_value=True)
    assert str(verdict) == verdict.text and verdict.text.count("\n") == 2 + 10 + 2 + 2
    assert verdict.text.splitlines()[-1].startswith("passed: 38 tensors measured")
    scores = kerf.score(MODEL, ["nvfp4", "int8"])
    assert str(scores) == scores.text and f"{scores['int8:amax'].t2:.3e}" in scores.text
    plan = kerf.quantize(MODEL, None, "mxfp4", dry_run=True)
    assert all(d.name in str(plan) for d in plan.decisions)
    done = kerf.quantize(MODEL, tmp_path / "q.safetensors", "mxfp4")
    assert str(done).startswith(f"{done.path}: 28 of 38 tensors quantized, 7.00 MiB -> ")
    dense = kerf.dequantize(done.path, tmp_path / "d.safetensors")
    assert ": 28 of 38 tensors decoded, " in str(dense)
    moved = kerf.convert(done.path, tmp_path / "ct.safetensors", "compressed-tensors")
    assert ": 28 weights in layout compressed-tensors, nothing lost, " in str(moved)
    machine = kerf.Hardware("h200")
    assert all(fact.source in str(machine) for fact in machine.facts.values())


def test_what_comes_from_files_is_escaped(tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"<b>w": np.ones((64, 64), np.float32)}, tmp_path / "x.safetensors")
    assert "<b>" not in kerf.open(tmp_path / "x.safetensors")._repr_html_()


def test_there_is_no_sdist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An archive of this folder lacks the sources of the library: it is refused, not made."""
    pytest.importorskip("scikit_build_core")
    monkeypatch.syspath_prepend(str(ROOT / "cli/python"))
    monkeypatch.chdir(ROOT / "cli/python")
    backend = importlib.import_module("backend")
    assert callable(backend.build_wheel) and backend.get_requires_for_build_sdist() == []
    with pytest.raises(backend.UnsupportedOperation, match="wheel"):
        backend.build_sdist(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_types_are_shipped() -> None:
    assert Path(kerf.__file__).with_name("py.typed").exists()


def test_columns_of_numbers_read_as_one() -> None:
    """Digits stand below each other, and so does what has no number in such a column."""
    page = kerf._records.table(("name", "t2"), [("a", 0.0075), ("b", 0.007614), ("c", "equal")])
    assert "0.007500<" in page and "0.007614<" in page
    assert page.count("text-align:right") == 3 and page.count("text-align:left") == 3
    shown = [kerf._records.cell(x) for x in (19.0, 4.25, 1234.5, 0.0, 7, 28000, None, True)]
    assert shown == ["19.00", "4.250", "1234", "0.000", "7", "28,000", "", "yes"]


def test_bytes_do_not_follow_the_locale(tmp_path: Path) -> None:
    """A program that runs in German has printf write 0,5; files and documents have a point."""
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True
    )
    if not made or not (tmp_path / "de_DE.UTF-8").exists():
        pytest.skip("no German locale can be made here")
    script = """
import locale, sys
import kerf
model, to, name = sys.argv[1:]
if name:
    locale.setlocale(locale.LC_ALL, name)
    assert "%.1f" % 0.5 != locale.format_string("%.1f", 0.5)
kerf.quantize(model, to + "/nf4", "nf4-dq", layout="bitsandbytes")
assert all(w.passed for w in [kerf.verify(model, to + "/nf4")])
advice = kerf.advise(model, bits=5.25, formats=["nvfp4", "int8"])
print(advice._repr_html_(), advice, kerf.score(model, ["int8"]), kerf.inspect(to + "/nf4"))
"""
    said, files = [], []
    for name in ("", "de_DE.UTF-8"):
        to = tmp_path / f"out{len(said)}"
        to.mkdir()
        run = subprocess.run(
            [sys.executable, "-c", script, MODEL, to, name],
            capture_output=True,
            text=True,
            env={**os.environ, "LOCPATH": str(tmp_path)},
        )
        assert run.returncode == 0, run.stderr
        said.append(re.sub(r"out[01]|[0-9.]+ s\b", "", run.stdout))
        files.append((to / "nf4/model.safetensors").read_bytes())
    assert said[0] == said[1]
    assert files[0] == files[1]

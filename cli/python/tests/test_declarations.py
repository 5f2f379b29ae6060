"""The declarations are those of the headers, and the library has what they declare."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import kerf
from kerf._library import ffi, lib

INCLUDE = [str(ROOT / room / "include") for room in ("codecs", "kernels", "advisor")]
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def is_whole(name: str) -> bool:
    """Whether it is a struct whose members are declared; handles have none."""
    try:
        return bool(ffi.typeof(name).kind == "struct" and ffi.sizeof(name))
    except (ffi.error, ValueError):
        return False


def structs() -> list[str]:
    typedefs, _, _ = ffi.list_types()
    return [t for t in typedefs if t.startswith("kerf_") and is_whole(t)]


@pytest.mark.skipif(not CC, reason="no C compiler")
def test_structs_are_as_the_compiler_has_them(tmp_path: Path) -> None:
    rows = ["#include <stdio.h>", "#include <stddef.h>"]
    rows += [f"#include <kerf/{h.name}>" for f in INCLUDE for h in sorted(Path(f, "kerf").glob("*.h"))]
    rows += ["int main(void) {"]
    expected = []
    for s in structs():
        rows.append(f'printf("{s} %zu\\n", sizeof({s}));')
        expected.append(f"{s} {ffi.sizeof(s)}")
        for name, field in ffi.typeof(s).fields:
            rows.append(f'printf("{s}.{name} %zu\\n", offsetof({s}, {name}));')
            expected.append(f"{s}.{name} {field.offset}")
    rows.append("}")
    source = tmp_path / "sizes.c"
    source.write_text("\n".join(rows))
    program = tmp_path / "sizes"
    subprocess.run([CC, *(f"-I{f}" for f in INCLUDE), source, "-o", program], check=True)
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert len(structs()) > 50
    assert found.splitlines() == expected


@pytest.mark.skipif(not CC, reason="no C compiler")
def test_declarations_are_those_of_the_headers_at_hand(tmp_path: Path) -> None:
    out = tmp_path / "made.py"
    script = ROOT / "cli/python/declarations.py"
    subprocess.run([sys.executable, script, CC, out, *INCLUDE], check=True, capture_output=True)
    installed = Path(kerf.__file__).with_name("_declarations.py")
    assert out.read_text() == installed.read_text()


def test_the_library_has_every_function() -> None:
    names = [n for n in dir(lib) if n.startswith("kerf_")]
    assert len(names) > 200
    for name in names:
        assert getattr(lib, name)


def test_nothing_public_is_left_out() -> None:
    nm = shutil.which("nm")
    if not nm:
        pytest.skip("no nm")
    library = Path(kerf.__file__).with_name("libkerf.so")
    out = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True)
    rows = [row.split() for row in out.stdout.decode().splitlines()]
    exported = {row[-1].split("@")[0] for row in rows if row[-2] in "TW"}
    assert exported == {n for n in dir(lib) if n.startswith("kerf_")}


def test_version_is_one() -> None:
    header = (ROOT / "codecs/include/kerf/codec.h").read_text()
    assert f'#define KERF_VERSION_TEXT "{kerf.__version__}"' in header

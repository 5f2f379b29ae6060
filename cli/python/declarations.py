"""Writes _declarations.py of the package: what the public headers declare, for cffi.

The declarations are not written by hand. The C compiler preprocesses all of <kerf/*.h>; what comes
from these headers is kept, attributes are taken out, and cffi makes a Python module of it. A header
that changes, changes the binding with the next build.

    python declarations.py CC OUT INCLUDE_FOLDER...
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cffi import FFI

# A line of the preprocessor that says where the next line stands: # 12 "/usr/include/stdint.h" 1
PLACE = re.compile(r'^# \d+ "([^"]*)"')
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
GIVE_BACK = "void free(void *);\n"  # texts that the library gives are malloc'd
NUMBER = re.compile(r"^#define (KERF_\w+) (0x[0-9a-fA-F]+|\d+)[uU]?\s*$")


def public_headers(folders: list[str]) -> dict[str, Path]:
    """Name -> path of every <kerf/*.h> under the include folders."""
    found = {h.name: h for f in folders for h in sorted(Path(f, "kerf").glob("*.h"))}
    if "codec.h" not in found:
        raise SystemExit(f"declarations.py: no kerf/codec.h under {', '.join(folders)}")
    return found


def preprocess(cc: str, folders: list[str]) -> str:
    """All public headers after the preprocessor, with #define lines and line markers."""
    text = "".join(f"#include <kerf/{name}>\n" for name in sorted(public_headers(folders)))
    command = [*cc.split(), "-E", "-dD", "-std=c11", "-x", "c", *(f"-I{f}" for f in folders), "-"]
    return subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE).stdout


def declarations(cc: str, folders: list[str]) -> str:
    """The C text that cffi parses: types, functions, and macros that are plain numbers."""
    ours = {str(path) for path in public_headers(folders).values()}
    ours |= {str(path.with_name("formats.def")) for path in public_headers(folders).values()}
    kept: list[str] = []
    inside = False
    for line in preprocess(cc, folders).splitlines():
        place = PLACE.match(line)
        if place:
            inside = place.group(1) in ours
        elif inside and (number := NUMBER.match(line)):
            kept.append(f"#define {number.group(1)} {number.group(2)}")
        elif inside and line.strip() and not line.startswith("#"):
            kept.append(line)
    return ATTRIBUTE.sub("", "\n".join(kept)) + "\n" + GIVE_BACK


def main(cc: str, out: str, *folders: str) -> None:
    ffi = FFI()
    ffi.cdef(declarations(cc, list(folders)))
    ffi.set_source("kerf._declarations", None)  # no C: libkerf.so is opened at run time
    ffi.emit_python_code(out)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])

"""libkerf.so and how it is called: the only place that loads it and turns statuses into exceptions.

The declarations (_declarations.py) are made from the public headers when the package is built.
cffi opens the library in ABI mode and releases the GIL around every call.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kerf._declarations import ffi
from kerf.errors import BY_STATUS, KerfError

__all__ = ["Arena", "call", "enum", "ffi", "lib", "raise_error", "text", "version"]


def _load() -> Any:
    """Opens the library of the package. KERF_LIBRARY names another one, for those who work on kerf."""
    path = os.environ.get("KERF_LIBRARY") or str(Path(__file__).with_name("libkerf.so"))
    try:
        found = ffi.dlopen(path)
    except OSError as e:
        raise ImportError(f"kerf: {path} cannot be loaded: {e}") from e
    declared = found.KERF_VERSION_MAJOR << 16 | found.KERF_VERSION_MINOR << 8
    declared |= found.KERF_VERSION_PATCH
    if found.kerf_version() != declared:
        raise ImportError(
            f"kerf: {path} is version {_dotted(found.kerf_version())}, but this package was made "
            f"from the headers of {_dotted(declared)}"
        )
    return found


def _dotted(number: int) -> str:
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


lib = _load()


def version() -> str:
    """Version of the library, "0.1.0"."""
    return _dotted(lib.kerf_version())


def text(c: Any) -> str:
    """A C string of the library as str; bytes that are no UTF-8 come back unchanged by os.fsencode."""
    if c == ffi.NULL:
        return ""
    data: bytes = ffi.string(c)
    return data.decode("utf-8", "surrogateescape")


def enum(kind: str, prefix: str) -> dict[int, str]:
    """Value -> name of a C enum, without the prefix and in lower case: {1: "tensor", ...}."""
    return {
        value: name.removeprefix(prefix).lower()
        for value, name in ffi.typeof(kind).elements.items()
        if name.startswith(prefix)
    }


def raise_error(status: int, err: Any) -> None:
    """Raises the exception of a status that is not KERF_OK; err is the kerf_error of the call."""
    name = text(lib.kerf_status_name(status))
    filled = err.status == status
    line = text(err.text) if filled else ""
    offset = err.offset if filled and err.offset != 2**64 - 1 else None
    kind = BY_STATUS.get(name, KerfError)
    raise kind(line or name, err.native if filled else 0, offset)


def call(function: Any, *args: Any) -> None:
    """Calls a function whose last parameter is a kerf_error and that returns a status."""
    err = ffi.new("kerf_error *")
    status = function(*args, err)
    if status != lib.KERF_OK:
        raise_error(status, err)


class Handle:
    """Base of what holds files or memory of the library, which belong to the process that it is in."""

    _instead = ""  # what to pass to another process

    def __reduce_ex__(self, protocol: Any) -> Any:
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be pickled or copied, for the library's files and memory that it holds"
            f" are those of this process: {self._instead}"
        )


class Arena:
    """C memory that must live until a call is over: strings, lists and structs made from Python."""

    def __init__(self) -> None:
        self._owned: list[Any] = []

    def new(self, kind: str, init: Any = None) -> Any:
        made = ffi.new(kind, init) if init is not None else ffi.new(kind)
        self._owned.append(made)
        return made

    def text(self, value: str | os.PathLike[str]) -> Any:
        """char * of a name or path."""
        try:
            data = os.fsencode(value)
        except UnicodeEncodeError:
            raise BY_STATUS["KERF_E_ARG"](f"{value!r} is no text: half of a character") from None
        if b"\0" in data:
            raise BY_STATUS["KERF_E_ARG"](f"a null byte in {value!r}")
        return self.new("char[]", data)

    def optional_text(self, value: str | os.PathLike[str] | None) -> Any:
        """The same, where the library has a use for NULL: that is None."""
        return ffi.NULL if value is None else self.text(value)

    def texts(self, values: Iterable[str]) -> tuple[Any, int]:
        """char ** and count."""
        items = [self.text(v) for v in values]
        return self.new("char *[]", items or [ffi.NULL]), len(items)

    def list(self, kind: str, items: Sequence[Any]) -> Any:
        """An array of structs or pointers; of one unused element where there are none."""
        return self.new(f"{kind}[]", list(items) or 1)

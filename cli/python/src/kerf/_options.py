"""Options that many calls share, from Python to structs: who computes, and which tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from kerf._library import Arena, call, ffi, lib, text
from kerf.errors import ArgumentError

Nan = Literal["error", "zero", "saturate"]
_NANS = {"error": "KERF_NAN_ERROR", "zero": "KERF_NAN_ZERO", "saturate": "KERF_NAN_SATURATE"}
_HANDLES = 2  # of a GPU: one copies while the other computes


def choice(what: str, word: str, words: Mapping[str, str]) -> int:
    """The value of an enum that a word names."""
    try:
        return int(getattr(lib, words[word]))
    except KeyError:
        raise ArgumentError(f"{what}={word!r}: one of {', '.join(words)}") from None


def _gpus(device: str) -> Sequence[int]:
    """The GPUs that "cuda", "cuda:1", "cuda:0,1" or "cuda:all" names; none for "cpu"."""
    found = ffi.new("kerf_device_list *")
    try:
        call(lib.kerf_devices_find, Arena().text(device), found)
    except ArgumentError:
        raise ArgumentError(f"device={device!r}: cpu, cuda, cuda:N, cuda:N,M or cuda:all") from None
    return list(found.ordinal[0 : found.count])


def open_device(number: int) -> Any:
    """A kerf_device *, closed when nothing refers to it any more, or by ffi.release."""
    out = ffi.new("kerf_device **")
    call(lib.kerf_device_open, number, out)
    return ffi.gc(out[0], lib.kerf_device_close)


@contextlib.contextmanager
def team(
    threads: int = 0,
    nan: Nan = "error",
    device: str = "cpu",
    backend: str | None = None,
    handles: int = _HANDLES,
) -> Iterator[Any]:
    """A kerf_team * of the processor or of the GPUs that device names."""
    arena = Arena()
    gpus = _gpus(device)
    count = len(gpus) * handles or 1
    member = arena.new("kerf_exec[]", count)
    with contextlib.ExitStack() as open_devices:
        for i in range(count):
            member[i].threads = threads
            member[i].nan = choice("nan", nan, _NANS)
            member[i].backend = arena.optional_text(backend)
            if gpus:
                member[i].device = gpu = open_device(gpus[i // handles])
                open_devices.callback(ffi.release, gpu)
        yield arena.new("kerf_team *", {"member": member, "count": count})


def select(arena: Arena, keep: Sequence[str], only: Sequence[str], every: bool) -> Any:
    """A kerf_select * of patterns over the names of tensors."""
    keeps, keep_count = arena.texts(patterns("keep", keep))
    onlys, only_count = arena.texts(patterns("only", only))
    return arena.new(
        "kerf_select *",
        {"keep": keeps, "keeps": keep_count, "only": onlys, "onlys": only_count, "all": int(every)},
    )


def patterns(what: str, value: Sequence[str]) -> Sequence[str]:
    """A list of patterns; one pattern alone is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or not all(isinstance(v, str) for v in value):
        raise ArgumentError(f"{what}: expected shell patterns, as in {what}=['*.down_proj.*']")
    return value


def malloced(function: Any, *args: Any) -> str:
    """The text that a function gives as char **text, size_t *n, or as char ** alone."""
    out = ffi.new("char **")
    size = [ffi.new("size_t *")] if len(ffi.typeof(function).args) == len(args) + 3 else []
    call(function, *args, out, *size)
    try:
        return text(out[0])
    finally:
        lib.free(out[0])


def text_of(function: Any, *args: Any) -> str:
    """The text for people that a function gives in a form: every column, whole names."""
    return malloced(function, *args, ffi.new("kerf_text_form *", {"wide": 1}))

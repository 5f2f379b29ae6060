"""What should each layer be? The best format for every group of layers under a budget, and why."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from kerf import _options
from kerf._jobs import Progress, run
from kerf._library import Arena, call, ffi, lib, text
from kerf._records import Record, read
from kerf.checkpoints import Checkpoint, Path, calibration_for, source_of
from kerf.errors import ArgumentError
from kerf.formats import find_codecs
from kerf.machines import Hardware, check_gpus, replace_file
from kerf.writing import check_files, find_layout

_PRICES = {"error": "KERF_PRICE_LOSS", "bytes": "KERF_PRICE_BYTES", "time": "KERF_PRICE_TIME"}
_BUDGET = ("bits", "bytes", "us", "tokens_per_s", "t2")
_KINDS = {
    ".html": "KERF_ADVICE_HTML",
    ".md": "KERF_ADVICE_MARKDOWN",
    ".json": "KERF_ADVICE_JSON",
    "recipe": "KERF_ADVICE_RECIPE",
    "summary": "KERF_ADVICE_SUMMARY",
}


@dataclasses.dataclass(frozen=True)
class Choice(Record):
    """What one group of layers shall be.

    group:   "model.layers.0.self_attn.qkv_proj"
    tensors: its members, which share a format
    codec:   "nvfp4:4/6", or "keep"
    bits:    per weight
    t2:      sum of alpha t2 of the members
    bytes:   of the group
    us:      predicted, the middle of the band from low_us to high_us; 0 without hardware
    reason:  what the next best candidate would change
    """

    group: str
    tensors: tuple[str, ...] = dataclasses.field(repr=False)
    codec: str
    bits: float
    t2: float
    bytes: float
    us: float
    low_us: float
    high_us: float
    reason: str


@dataclasses.dataclass(frozen=True)
class Point(Record):
    """Sums over all groups: bits per weight, bytes, t2, predicted microseconds and the band of these."""

    bits: float
    bytes: float
    t2: float
    us: float
    low_us: float
    high_us: float


@dataclasses.dataclass(frozen=True)
class Advice(Record):
    """A format for every group. A notebook shows the report with its charts.

    choices:  one for each group, in the order of the model
    total:    of the choice
    uniform:  codec -> the same sums if that one format were taken everywhere
    curve:    the best choices as the size grows
    gap:      how far below the choice the optimum could lie, a share of it; 0: it is the best
    recipe:   to be given to quantize(recipe=...), or edited first
    summary:  some lines of text
    """

    source: str
    choices: tuple[Choice, ...] = dataclasses.field(repr=False)
    total: Point
    uniform: dict[str, Point] = dataclasses.field(repr=False)
    curve: tuple[Point, ...] = dataclasses.field(repr=False)
    gap: float
    scored: int
    cached: int
    recipe: dict[str, Any] = dataclasses.field(repr=False)
    summary: str = dataclasses.field(repr=False)
    documents: dict[str, str] = dataclasses.field(repr=False)

    def json(self) -> Any:
        """The document of ``kerf advise --json`` (schema kerf.advise/1)."""
        return json.loads(self.documents[".json"])

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Writes the recipe, as ``kerf advise -o`` does. ExistsError, FileError."""
        replace_file(path, self.documents["recipe"], overwrite)

    def report(self, path: Path, *, overwrite: bool = False) -> None:
        """Writes the report to a name that ends in .html, .md or .json."""
        end = os.path.splitext(os.fspath(path))[1]
        if end not in self.documents:
            raise ArgumentError(f"{path}: expected a name that ends in .html, .md or .json")
        replace_file(path, self.documents[end], overwrite)

    def __str__(self) -> str:
        return self.documents["text"]

    def _repr_html_(self) -> str:
        """The page is a document of its own, so a notebook shows it in a frame; it has no scripts."""
        page = html.escape(self.documents[".html"], quote=True)
        look = 'sandbox="allow-same-origin" width="100%" height="900" style="border:0"'
        return f'<iframe srcdoc="{page}" {look}></iframe>'


@dataclasses.dataclass(frozen=True)
class TypicalRow(Record):
    """One format for all linear layers of a model of which only config.json is at hand.

    codec:         "nvfp4:sweep"
    bits:          per weight of what is quantized
    weight_bytes:  of the whole model; cache_bytes: of all sequences; gpu_bytes: of both on one GPU
    t2:            typical relative squared error
    low_us, us, high_us: of a decoding step
    tier:          how sure the time is: "table", "fitted" or "spec-only"
    fits:          weights and cache are in the memory; None: it is not known
    holds:         the budget: 2 in the whole band of time, 1 in part of it, 0 not
    """

    codec: str
    bits: float
    weight_bytes: float
    cache_bytes: float
    gpu_bytes: float
    t2: float
    low_us: float
    us: float
    high_us: float
    tier: str
    fits: bool | None
    holds: int


@dataclasses.dataclass(frozen=True)
class Typical(Record):
    """Every candidate for a model of which only config.json is at hand.

    rows:       the least error first
    best:       the first that fits and holds; None where none does
    source:     what the errors were measured on
    estimated:  the family is known by its sizes alone
    """

    rows: tuple[TypicalRow, ...] = dataclasses.field(repr=False)
    best: TypicalRow | None
    source: str
    estimated: bool


def candidates(layout: str | None = None, runtime: str | None = None) -> tuple[str, ...]:
    """The candidates of advise where none are named; for a layout or a runtime those that it has."""
    arena = Arena()
    found = lib.kerf_advise_candidates_for(find_layout(layout), _runtime(arena, runtime))
    return tuple(text(found).split(","))


def advise(
    source: Path | Checkpoint,
    *,
    bits: float = 0,
    bytes: float = 0,
    us: float = 0,
    tokens_per_s: float = 0,
    t2: float = 0,
    minimise: Literal["error", "bytes", "time"] = "error",
    formats: str | Iterable[str] | None = None,
    layout: str | None = None,
    runtime: str | None = None,
    likely: bool = False,
    hardware: Hardware | Path | None = None,
    config: Path | None = None,
    batch: float = 1,
    context: float = 4096,
    gpus: int = 1,
    expert_parallel: bool = False,
    imatrix: Path | Checkpoint | None = None,
    calibration: Path | None = None,
    feedback: bool = False,
    again: bool = False,
    alpha: Literal["flat", "depth"] | Mapping[str, float] | None = None,
    keep: Sequence[str] = (),
    only: Sequence[str] = (),
    every: bool = False,
    nested: bool = False,
    cache: Path | None = None,
    threads: int = 0,
    nan: _options.Nan = "error",
    device: str = "cpu",
    progress: Progress | None = None,
) -> Advice:
    """Chooses one format for each group of layers of a source, path or Checkpoint, that runtimes fuse:
    the least error under a budget, exactly.

    Budget, all that are given hold together:
      bits           per weight of what is chosen, to three digits
      bytes          of all tensors
      us             of a decoding step, predicted; needs hardware
      tokens_per_s   at least, of all sequences together; needs hardware and a config.json
      t2             sum of alpha t2; with minimise="bytes" or "time"

    minimise:   what to make small while the others stay under the budget
    formats:    candidates, names and patterns as score takes them; None: candidates(layout, runtime)
    layout:     what the result must fit: experts stand as it wants them; a candidate that it does not
                take is left out, or an UnsupportedError where it was asked for by its name
    runtime:    what shall load it, on hardware where that is given: "vllm", "TensorRT-LLM", ...
    likely:     times are the middle of their band; else limits hold at its slow end
    hardware:   a Hardware, a name or a file: predicts times
    config:     config.json of the model; None: the one beside the weights
    batch:      sequences of a decoding step; context: tokens of each
    gpus:       so many of the hardware share every layer, and what they exchange is in the times;
                expert_parallel: each expert is whole on one of them; needs hardware and a config.json
    imatrix:    weighs errors by the importance of columns, as for score
    calibration:  what calibrate has made of these weights, or its path: alpha, and columns of inputs
    feedback:   candidates with error feedback by calibrate(gram=True), and a recipe that asks for it:
                quantize(recipe=..., calibration=...); again: as there
    alpha:      how much the error of a tensor matters: "flat", "depth", or {pattern: number}; None: as
                the calibration has it, else "flat"
    nested:     choices that only grow with the budget, not always the best
    cache:      a file that keeps scores: another budget then takes seconds

    keep, only, every, threads, nan, device and progress are those of score. Raises LimitError: no
    choice stays under the budget, and the text says what would; ArgumentError: a request that
    contradicts itself or has no budget; UnsupportedError: a candidate that can encode no group.
    """
    arena = Arena()
    model = source_of(source)
    weights = source_of(imatrix) if imatrix is not None else None
    check_files([model.path, weights.path if weights else None, calibration], [], [cache])
    machine = Hardware(hardware) if isinstance(hardware, (str, os.PathLike)) else hardware
    request = arena.new("kerf_advise_request *")
    codecs, named = find_codecs(candidates(layout, runtime) if formats is None else formats)
    request.layout, request.runtime = find_layout(layout), _runtime(arena, runtime)
    optional = [formats is None or not by_name for by_name in named]
    request.optional = arena.new("unsigned char[]", optional or [0])
    request.select = _options.select(arena, keep, only, every)
    request.codec, request.codecs = arena.list("kerf_codec", codecs), len(codecs)
    request.budget = dict(zip(_BUDGET, (bits, bytes, us, tokens_per_s, t2)), likely=int(likely))
    request.minimise = _options.choice("minimise", minimise, _PRICES)
    request.nested = nested
    request.hardware = machine.handle if machine else ffi.NULL
    request.model = _model(arena, model, config)
    request.batch, request.context = batch, context
    request.gpus, request.expert_parallel = check_gpus(gpus, expert_parallel), int(expert_parallel)
    request.imatrix = weights.handle if weights else ffi.NULL
    request.cache = arena.optional_text(cache)
    calibrated, request.feedback = calibration_for("advise", calibration, feedback, again)
    request.calibration = calibrated or ffi.NULL
    _set_alpha(arena, request, alpha)
    out = ffi.new("kerf_advice **")
    with _options.team(threads, nan, device) as team:
        run(
            lambda job, err: lib.kerf_advise(model.handle, request, team.member, job, out, err),
            progress,
        )
    return _advice_of(ffi.gc(out[0], lib.kerf_advice_close))


def advise_typical(
    config: Path,
    hardware: Hardware | Path,
    *,
    bits: float = 0,
    bytes: float = 0,
    us: float = 0,
    tokens_per_s: float = 0,
    formats: str | Iterable[str] | None = None,
    layout: str | None = None,
    runtime: str | None = None,
    likely: bool = False,
    batch: float = 1,
    context: float = 4096,
    gpus: int = 1,
    expert_parallel: bool = False,
) -> Typical:
    """Which format, before the weights are at hand: sizes and times of the matrices that a config.json
    names, and errors that are typical, measured on other models. Options are those of advise, which
    measures instead, and mixes formats by layer.

    Raises ArgumentError, DataError: a config.json with something missing, UnsupportedError: no candidate
    is left.
    """
    arena = Arena()
    machine = hardware if isinstance(hardware, Hardware) else Hardware(hardware)
    request = arena.new("kerf_typical_request *")
    model = arena.new("kerf_model *")
    call(lib.kerf_model_open, arena.text(config), model)
    request.model, request.hardware = model, machine.handle
    request.layout, request.runtime = find_layout(layout), _runtime(arena, runtime)
    codecs, _ = find_codecs(candidates(layout, runtime) if formats is None else formats)
    request.codec, request.codecs = arena.list("kerf_codec", codecs), len(codecs)
    request.budget = {
        "bits": bits, "bytes": bytes, "us": us, "tokens_per_s": tokens_per_s, "likely": int(likely)
    }  # fmt: skip
    request.batch, request.context = batch, context
    request.gpus, request.expert_parallel = check_gpus(gpus, expert_parallel), int(expert_parallel)
    out = ffi.new("kerf_typical **")
    call(lib.kerf_advise_typical, request, out)
    t = ffi.gc(out[0], lib.kerf_typical_close)
    rows = tuple(_typical_row(t.row[i]) for i in range(t.rows))
    best = rows[t.best] if t.best < t.rows else None
    return Typical(rows, best, text(lib.kerf_typical_source()), bool(model.estimated))


def _typical_row(row: Any) -> TypicalRow:
    name = ffi.new("char[64]")
    return read(
        TypicalRow,
        row,
        codec=text(lib.kerf_codec_name(row.codec, name, 64)),
        tier=text(lib.kerf_tier_name(row.tier)),
        fits=None if row.fits < 0 else bool(row.fits),
    )


def _runtime(arena: Arena, name: str | None) -> Any:
    """A kerf_runtime *; NULL for None. ArgumentError: there is none of that name."""
    if name is None:
        return ffi.NULL
    found = arena.new("kerf_runtime **")
    call(lib.kerf_runtime_get, arena.text(name), found)
    return found[0]


def _model(arena: Arena, model: Checkpoint, config: Path | None) -> Any:
    """What a decoding step does besides the products: of config.json, where it is a model that kerf
    knows."""
    made = arena.new("kerf_model *")
    found, why = ffi.new("int *"), ffi.new("char[512]")
    call(lib.kerf_model_find, model.handle, arena.optional_text(config), made, found, why, 512)
    if text(why):
        warnings.warn(f"products alone: {text(why)}", stacklevel=3)
    return made if found[0] else ffi.NULL


def _set_alpha(arena: Arena, request: Any, alpha: str | Mapping[str, float] | None) -> None:
    if alpha is None:
        calibrated = request.calibration != ffi.NULL
        request.alpha = lib.KERF_ALPHA_CALIBRATED if calibrated else lib.KERF_ALPHA_FLAT
    elif isinstance(alpha, Mapping):
        rules = [{"glob": arena.text(g), "alpha": a} for g, a in alpha.items()]
        request.alpha = lib.KERF_ALPHA_RULES
        request.alpha_rule, request.alpha_rules = arena.list("kerf_alpha_rule", rules), len(rules)
        request.alpha_name = arena.text("alpha")
    elif alpha in ("flat", "depth"):
        request.alpha = lib.KERF_ALPHA_DEPTH if alpha == "depth" else lib.KERF_ALPHA_FLAT
    else:
        raise ArgumentError(f"alpha={alpha!r}: flat, depth, or {{pattern: number}}")


def _codec(a: Any, c: int) -> str:
    name = ffi.new("char[64]")
    return text(lib.kerf_advice_codec_name(a, c, name))


def _choice(a: Any, g: Any) -> Choice:
    cost = g.cost[g.pick]
    return Choice(
        group=text(g.name),
        tensors=tuple(text(a.tensor[g.member[i]].weight.name) for i in range(g.members)),
        codec=_codec(a, g.pick),
        bits=lib.kerf_advice_bits(ffi.addressof(g), g.pick),
        t2=cost.t2,
        bytes=cost.bytes,
        us=cost.us,
        low_us=cost.low_us,
        high_us=cost.high_us,
        reason=text(g.reason),
    )


def _advice_of(a: Any) -> Advice:
    documents = {
        end: _options.malloced(lib.kerf_advice_write, a, getattr(lib, kind))
        for end, kind in _KINDS.items()
    }
    documents["text"] = _options.text_of(lib.kerf_advice_text, a)
    return read(
        Advice,
        a,
        choices=tuple(_choice(a, a.group[i]) for i in range(a.groups)),
        total=read(Point, lib.kerf_advice_total(a)),
        uniform={_codec(a, c): read(Point, lib.kerf_advice_uniform(a, c)) for c in range(a.codecs)},
        curve=tuple(read(Point, a.by_size.point[i]) for i in range(a.by_size.count)),
        gap=a.choice.gap,
        recipe=json.loads(documents["recipe"]),
        summary=documents["summary"],
        documents=documents,
    )

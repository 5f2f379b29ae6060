"""Checkpoints from checkpoints: quantize, dequantize, convert."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from kerf import _arrays, _options
from kerf._jobs import Progress, run
from kerf._library import Arena, call, ffi, lib, text
from kerf._options import Nan
from kerf._records import Record, read, table
from kerf.checkpoints import Checkpoint, Path, model_shape, open_calibration, source_of
from kerf.errors import ArgumentError
from kerf.formats import codec_name, find_codec

Recipe = Path | Mapping[str, Any]
_KEEP = "keep"


class BrokenPromiseWarning(UserWarning):
    """What was written is not what the recipe promises; the output is in place all the same."""


# --- results -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Decision(Record):
    """What becomes of one tensor.

    name:       of the tensor
    shape:      of the dense tensor
    source:     what it is: "BF16"
    action:     "quantize"; "keep": as it is; "decode": in its dense type, for the output has another
                layout than the one that it is quantized in; "drop": a scale of what is decoded now
    codec:      what it is quantized to, "nvfp4:4/6"; else ""
    reason:     why it is not quantized, or which rule asks for the codec; else ""
    bytes_in:   stored bytes before
    bytes_out:  and after
    """

    name: str
    shape: tuple[int, ...]
    source: str
    action: str
    codec: str
    reason: str
    bytes_in: int
    bytes_out: int


@dataclasses.dataclass(frozen=True)
class RecipeCheck(Record):
    """The promises of a recipe, held against what was written.

    kept, broken:  promises
    edited:        tensors whose codec is another one than when the recipe was made
    first:         the first broken promise in words, or ""
    """

    kept: int
    broken: int
    edited: int
    first: str


@dataclasses.dataclass(frozen=True)
class Quantized(Record):
    """What quantize did, or would do.

    path:       of the output; "" after a dry run without one
    layout:     whose names the quantized tensors have
    written:    False after a dry run
    decisions:  one for each tensor, in the order of the source
    bytes_in:   of all tensors, without headers
    bytes_out:  and after
    notes:      what could not be told, a line each: tensors of unknown role, an unknown model
    seconds:    that writing took
    recipe:     its promises, where there was one and it was executed
    text:       what the command prints with --wide: str() of the result
    """

    path: str
    layout: str
    written: bool
    decisions: tuple[Decision, ...] = dataclasses.field(repr=False)
    bytes_in: int
    bytes_out: int
    elements: int
    notes: tuple[str, ...]
    seconds: float
    recipe: RecipeCheck | None
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def quantized(self) -> int:
        """Tensors that this run quantizes."""
        return sum(1 for d in self.decisions if d.codec)

    @property
    def bpw(self) -> float:
        """Bits per weight of all tensors, those that are kept among them."""
        return 8 * self.bytes_out / self.elements if self.elements else 0.0

    def _repr_html_(self) -> str:
        rows = [
            (
                d.name,
                str(d.shape),
                d.source,
                d.codec or f"{d.action} ({d.reason})",
                d.bytes_in,
                d.bytes_out,
            )
            for d in self.decisions
        ]
        verb = "written to" if self.written else "not written,"
        caption = f"{verb} {self.path}: {self.quantized} of {len(rows)} tensors, {self.bpw:.3f} bpw"
        rows.append(("", "", "", "", self.bytes_in, self.bytes_out))
        return table(("tensor", "shape", "source", "becomes", "bytes", "after"), rows, caption)


@dataclasses.dataclass(frozen=True)
class Written(Record):
    """What dequantize or convert did.

    changed, kept:        tensors that were decoded or converted, and all others
    bytes_in, bytes_out:  of tensors, without headers
    seconds:              that it took
    text:                 what the command prints: str() of the result
    """

    changed: int
    kept: int
    bytes_in: int
    bytes_out: int
    seconds: float
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Losses(Record):
    """What a conversion could not carry over; all zeros: nothing was lost.

    input_scales:  scales of activations that keep names which the new layout does not read
    smoothed:      layers that need a pre_quant_scale, which the new layout does not read
    groups:        groups of merged layers whose tensor scales differ: the largest is taken for all
    rounded:       scales that fp32 rounds: converted back they differ in the last place
    foreign:       block scales whose byte one of the layouts reads as another number
    cache:         1: the KV cache was quantized in a way that the new layout has no words for
    undeclared:    1: loaders look in config.json for how weights are quantized, and there is none
    """

    input_scales: int
    smoothed: int
    groups: int
    rounded: int
    foreign: int
    cache: int
    undeclared: int


@dataclasses.dataclass(frozen=True)
class Converted(Written):
    """What convert did; ``losses`` says what it could not carry over."""

    losses: Losses


# --- options -----------------------------------------------------------------------------------


def _output(
    arena: Arena,
    path: Path | None,
    layout: str | None,
    overwrite: bool,
    resume: bool,
    shard_bytes: int,
    zstd_level: int,
    threads: int,
) -> Any:
    out = arena.new("kerf_output *")
    out.path = arena.optional_text(path)
    out.layout = find_layout(layout)
    out.overwrite, out.resume = overwrite, resume
    out.shard_bytes, out.zstd_level, out.threads = shard_bytes, zstd_level, threads
    return out


def find_layout(name: str | None) -> Any:
    """A const kerf_layout *; NULL for None."""
    if name is None:
        return ffi.NULL
    out = ffi.new("const kerf_layout **")
    call(lib.kerf_layout_get, Arena().text(name), out)
    return out[0]


def layouts() -> tuple[str, ...]:
    """The layouts that ``layout=`` names: "kerf", "modelopt", "compressed-tensors", ..."""
    return tuple(text(lib.kerf_layout_at(i).name) for i in range(lib.kerf_layout_count()))


def check_files(
    sources: Sequence[Path | None],
    outputs: Sequence[Path | None],
    caches: Sequence[Path | None] = (),
) -> None:
    """ArgumentError, before any work: an output would replace something that is read."""
    arena = Arena()
    files = arena.new("kerf_files *")
    for name, paths in (("source", sources), ("output", outputs), ("cache", caches)):
        names, count = arena.texts(os.fspath(p) for p in paths if p is not None)
        setattr(files, name, names)
        setattr(files, name + "s", count)
    call(lib.kerf_files_check, files)


def _open_recipe(recipe: Recipe) -> Any:
    out = ffi.new("kerf_recipe **")
    if isinstance(recipe, Mapping):
        data = json.dumps(dict(recipe)).encode()
        call(lib.kerf_recipe_parse, data, len(data), b"recipe", out)
    else:
        call(lib.kerf_recipe_open, Arena().text(recipe), out)
    return ffi.gc(out[0], lib.kerf_recipe_close)


def _rules(arena: Arena, recipe: Any, tensors: Mapping[str, str | None]) -> list[Any]:
    """kerf_rule of a recipe, then those of `tensors`, which overrule them."""
    rules = [recipe.rule[i] for i in range(recipe.rules)] if recipe else []
    for glob, name in tensors.items():
        rule = arena.new("kerf_rule *")
        rule.glob = arena.text(glob)
        rule.origin = arena.text(f"tensors[{glob!r}]")
        if name is not None and name != _KEEP:
            rule.codec = find_codec(name)
        rules.append(rule[0])
    return rules


def _calibrate(
    arena: Arena,
    target: Any,
    recipe: Any,
    calibration: Path | None,
    model: Checkpoint,
    feedback: bool,
    again: bool,
    input_scales: bool,
    kv: str | None,
) -> Any:
    """Sets of a kerf_output what comes of a calibration: the kerf_calibration *, or None. It and the
    arena must outlive the plan."""
    asked = bool(recipe and recipe.feedback)
    feedback_too = bool(feedback) or asked
    wishes = {
        "error feedback, which the recipe asks for,": asked,
        "feedback=True": feedback,
        "input_scales=True": input_scales,
        f"kv={kv!r}": kv is not None,
    }
    wish = next((w for w, is_there in wishes.items() if is_there), None)
    if wish and calibration is None:
        how = "gram=True" if feedback_too else "..."
        raise ArgumentError(f"quantize: {wish} needs calibration=: kerf.calibrate({how}) makes one")
    if again and not feedback_too:
        raise ArgumentError("quantize: again=True is for feedback=True")
    what = arena.new("kerf_calibrated *")
    what.feedback, what.again, what.input_scales = bool(feedback), bool(again), bool(input_scales)
    if kv is not None:
        what.kv = find_codec(kv).format
        if what.kv.id != lib.KERF_FORMAT_FP8_E4M3:
            raise ArgumentError(f"kv={kv!r}: loaders have a KV cache in fp8-e4m3 alone")
    calibrated = open_calibration(calibration) if calibration is not None else None
    call(
        lib.kerf_output_calibrate,
        target,
        what,
        recipe or ffi.NULL,
        calibrated or ffi.NULL,
        model.handle,
        arena.new("kerf_moments *"),
    )
    return calibrated


# --- quantize ----------------------------------------------------------------------------------


def quantize(
    source: Path | Checkpoint,
    out: Path | None,
    format: str | None = None,
    *,
    recipe: Recipe | None = None,
    tensors: Mapping[str, str | None] | None = None,
    keep: Sequence[str] = (),
    only: Sequence[str] = (),
    layout: str | None = None,
    imatrix: Path | Checkpoint | None = None,
    calibration: Path | None = None,
    feedback: bool = False,
    again: bool = False,
    input_scales: bool = False,
    kv: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    shard_bytes: int = 0,
    zstd_level: int = 0,
    threads: int = 0,
    nan: Nan = "error",
    device: str = "cpu",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Quantized:
    """Writes a model in a few-bit format.

    source:       a file, a folder, or an open Checkpoint
    out:          *.safetensors, *.safetensors.zst, *.gguf, else a folder. It appears when all of it is
                  on disk and was read back; a run that fails or is stopped leaves nothing behind
    format:       "nvfp4:4/6", for what is quantized by default: not norms, embeddings, output heads,
                  routers and other small tensors
    recipe:       path of a recipe, or the recipe as a dict: another format for each tensor. What was
                  written is measured again: ``recipe`` of the result, and a BrokenPromiseWarning
    tensors:      {shell pattern: format}, over all the rest; None or "keep": left as it is. A pattern is
                  for what it matches beside norms, routers and the like, or for those alone
    keep, only:   shell patterns of tensors that are left, or of the only ones that are not
    layout:       "kerf", "modelopt", "compressed-tensors", ...: see layouts(); None: that of the
                  recipe, gguf for *.gguf, else kerf
    imatrix:      importance of columns, path or Checkpoint, for the encoders that are called imatrix
    calibration:  what calibrate has made of source, or its path: importance of columns where there is no
                  imatrix, and what the next four go by
    feedback:     rounds each weight so that the error of its layer's output is small, not its own; by
                  calibrate(gram=True). A recipe may ask for it, too
    again:        goes over all columns again then, four times at most, on the processor
    input_scales: stores scales of inputs, so that runtimes multiply in 4 or 8 bits: beside nvfp4 and
                  fp8-e4m3, in layouts modelopt and compressed-tensors
    kv:           "fp8-e4m3": the KV cache is in it, with scales of keys and values; in the same layouts
    overwrite:    replaces what is at out; else that is an ExistsError
    resume:       goes on with what a run that was killed has left
    shard_bytes:  new files of at most this size in a folder; 0: the files of the source
    zstd_level:   1 to 22, of *.zst alone; 0: 3
    threads, nan: as for encode
    device:       "cpu", "cuda", "cuda:N", "cuda:all"
    dry_run:      decides for every tensor and writes nothing; out may be None
    progress:     called with each Event in this thread; what it raises stops the work

    KeyboardInterrupt stops it within some 100 ms. Raises ArgumentError (a pattern without match, a
    rule that cannot be followed, an option without the calibration that it needs), UnsupportedError,
    DataError (NaN or Inf, with the tensor's name; a calibration of another model), FileError,
    ExistsError.
    """
    if format is None and recipe is None and not tensors:
        raise ArgumentError("quantize: what into? format, recipe or tensors is missing")
    if out is None and not dry_run:
        raise ArgumentError("quantize: out is missing; dry_run=True needs none")
    if isinstance(format, str) and format.endswith(".json"):
        raise ArgumentError(f"format={format!r}: that is a file; a recipe is given as recipe=")
    if tensors is not None and not isinstance(tensors, Mapping):
        raise ArgumentError("tensors: expected formats by pattern: tensors={'*down_proj*': 'int8'}")
    arena = Arena()
    model = source_of(source)
    weights = source_of(imatrix) if imatrix is not None else None
    is_file = recipe is not None and not isinstance(recipe, Mapping)
    sources = [model.path, recipe if is_file else None, weights.path if weights else None, calibration]
    check_files(sources, [out])  # type: ignore[arg-type]
    opened = _open_recipe(recipe) if recipe is not None else None
    rules = _rules(arena, opened, tensors or {})
    target = _output(arena, out, layout, overwrite, resume, shard_bytes, zstd_level, threads)
    target.imatrix = weights.handle if weights else ffi.NULL
    if opened and layout is None:
        target.layout = opened.layout
    calibrated = _calibrate(arena, target, opened, calibration, model, feedback, again, input_scales, kv)
    base = find_codec(format) if format is not None else arena.new("kerf_codec *")[0]
    made = ffi.new("kerf_plan **")
    call(
        lib.kerf_plan_make,
        model.handle,
        _options.select(arena, keep, only, False),
        arena.list("kerf_rule", rules),
        len(rules),
        base,
        target,
        made,
    )
    needed = (arena, calibrated, weights)  # which outlive the plan, for it has them
    plan = ffi.gc(made[0], lambda p, _needed=needed: lib.kerf_plan_free(p))
    result = ffi.new("kerf_result *")
    check = None
    if not dry_run:
        with _options.team(threads, nan, device) as team:
            run(lambda job, err: lib.kerf_quantize(plan, team, job, result, err), progress)
            if opened:
                check = _check_recipe(opened, rules, plan, str(out), team, arena, progress)
    totals = ffi.new("kerf_totals *")
    lib.kerf_plan_totals(plan, totals)
    return read(
        Quantized,
        totals,
        path="" if out is None else os.fspath(out),
        layout=text(lib.kerf_plan_layout(plan).name),
        written=not dry_run,
        decisions=tuple(_decision(lib.kerf_plan_at(plan, i)) for i in range(totals.weights)),
        notes=_notes(plan),
        seconds=result.seconds,
        recipe=check,
        text=_options.text_of(lib.kerf_plan_text, plan, ffi.NULL if dry_run else result),
    )


def _notes(plan: Any) -> tuple[str, ...]:
    notes: list[str] = []
    while (note := lib.kerf_plan_note(plan, len(notes))) != ffi.NULL:
        notes.append(text(note))
    return tuple(notes)


def _decision(d: Any) -> Decision:
    w, name = d.weight, ffi.new("char[64]")
    if d.codec.format != ffi.NULL:
        action = "quantize"
    else:
        action = "drop" if d.dropped else "decode" if d.decoded else "keep"
    return Decision(
        name=text(w.name),
        shape=model_shape(w),
        source=text(lib.kerf_weight_format(w, name, 64)),
        action=action,
        codec=codec_name(d.codec),
        reason=text(d.reason),
        bytes_in=lib.kerf_weight_bytes(w),
        bytes_out=lib.kerf_decision_bytes(d),
    )


def _check_recipe(
    recipe: Any,
    rules: list[Any],
    plan: Any,
    out: str,
    team: Any,
    arena: Arena,
    progress: Progress | None,
) -> RecipeCheck:
    result = ffi.new("kerf_recipe_result *")
    further = rules[recipe.rules :]
    others = arena.list("kerf_rule", further)
    source = lib.kerf_plan_source(plan)
    with Checkpoint(out) as written:
        run(
            lambda job, err: lib.kerf_recipe_check(
                recipe, others, len(further), source, written.handle, team.member, job, result, err
            ),
            progress,
        )
    check = read(RecipeCheck, result)
    if check.broken:
        warnings.warn(f"{out}: {check.first}", BrokenPromiseWarning, stacklevel=3)
    return check


# --- dequantize, convert -------------------------------------------------------------------------


def dequantize(
    source: Path | Checkpoint,
    out: Path,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    shard_bytes: int = 0,
    zstd_level: int = 0,
    threads: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Written:
    """Writes every quantized tensor as one dense tensor of its own name, and all others as they are.

    dtype: "f32", "f16" or "bf16" of all decoded tensors; None: the type that each had before.

    The other arguments are those of quantize. Raises UnsupportedError: nothing is quantized, or a
    tensor belongs to a quantized one that kerf cannot read.
    """
    arena = Arena()
    model = source_of(source)
    check_files([model.path], [out])
    kind = _arrays.dtype_id(dtype) if dtype else 0
    target = _output(arena, out, None, overwrite, resume, shard_bytes, zstd_level, threads)
    result = ffi.new("kerf_result *")
    with _options.team(threads, device=device) as team:
        run(
            lambda job, err: lib.kerf_dequantize(model.handle, kind, target, team, job, result, err),
            progress,
        )
    said = _options.text_of(lib.kerf_dequantized_text, model.handle, target, result)
    return read(Written, result, text=said)


def convert(
    source: Path | Checkpoint,
    out: Path,
    layout: str,
    *,
    overwrite: bool = False,
    resume: bool = False,
    shard_bytes: int = 0,
    zstd_level: int = 0,
    threads: int = 0,
    progress: Progress | None = None,
) -> Converted:
    """Writes the codes and scales of every quantized tensor as another layout has them, code for code,
    and copies all others.

    layout: "kerf", "modelopt", ...: see layouts(). The other arguments are those of quantize.
    ``losses`` of the result says what did not survive. Raises UnsupportedError: something cannot
    move, with the reason.
    """
    arena = Arena()
    model = source_of(source)
    check_files([model.path], [out])
    target = _output(arena, out, layout, overwrite, resume, shard_bytes, zstd_level, threads)
    result, losses = ffi.new("kerf_result *"), ffi.new("kerf_losses *")
    run(
        lambda job, err: lib.kerf_convert(model.handle, target, job, result, losses, err),
        progress,
    )
    said = _options.text_of(lib.kerf_converted_text, model.handle, target, result, losses)
    return read(Converted, result, losses=read(Losses, losses), text=said)

"""What formats cost, what a quantized model has lost, and what is wrong in one."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kerf import _arrays, _options
from kerf._jobs import Progress, run
from kerf._library import Arena, call, enum, ffi, lib, text
from kerf._options import Nan
from kerf._records import Record, Verdict, read, table
from kerf.checkpoints import Checkpoint, Path, calibration_for, open_calibration, source_of
from kerf.errors import ArgumentError, UnsupportedError
from kerf.formats import codec_name, find_codecs
from kerf.planes import Planes, encode, geometry, host_spans, plane_views

_DEFAULT = ("*", "nvfp4:*", "mx*:*")  # as `kerf score` without -f
_FIGURES = enum("kerf_figure", "KERF_FIGURE_")
_FIGURES.pop(lib.KERF_FIGURES, None)
_SEVERITIES = enum("kerf_severity", "KERF_")


# --- score -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Score(Record):
    """What a format costs a tensor, or several together; counted on the bytes that are written.

    elements:    of the tensor
    bytes:       of all planes
    bpw:         bits per weight, all planes counted
    t2:          ||W' - W||^2 / ||W||^2
    weighted_t2: the same with the importance of columns; NaN without
    sqnr_db:     -10 log10 t2
    bias:        sum (W' - W) W / sum W^2: below zero, the format shrinks the weights
    clip_share:  share of elements outside the range of their scale
    max_error:   largest |W' - W|
    rest_t2:     t2 of what is not an outlier, where one scale serves a whole matrix whose largest
                 element is far above the others
    zero_share:  share of elements of that rest that were not zero and are
    lost_share:  share of blocks of 128 elements that have lost more than half of themselves
    nonfinite:   finite elements that are decoded as NaN or Inf
    """

    elements: int
    bytes: int
    bpw: float
    t2: float
    weighted_t2: float
    sqnr_db: float
    bias: float
    clip_share: float
    max_error: float
    rest_t2: float
    zero_share: float
    lost_share: float
    nonfinite: int


_SHOWN = ("bpw", "t2", "sqnr_db", "bias", "clip_share", "max_error")


def _score_of(s: Any) -> Score:
    """A Score of a const kerf_score *."""
    figures = ["bpw", "t2", "weighted_t2", "rest_t2", "sqnr_db", "bias"]
    figures += ["clip_share", "zero_share", "lost_share"]
    return read(Score, s, **{f: getattr(lib, f"kerf_score_{f}")(s) for f in figures})


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Scores(Mapping[str, Score]):
    """What each format costs: codec -> Score of all tensors together.

    source:    path of the model, or "an array"
    total:     codec -> Score, what the mapping holds
    tensors:   name -> {codec: Score}
    left_out:  codec -> why it was not measured
    document:  of ``kerf score --json``, of a model only
    text:      what ``kerf score --wide`` prints, of a model only: str() of the scores
    """

    source: str
    total: dict[str, Score]
    tensors: dict[str, dict[str, Score]]
    left_out: dict[str, str]
    document: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text or repr(self)

    def __getitem__(self, codec: str) -> Score:
        return self.total[codec]

    def __iter__(self) -> Iterator[str]:
        return iter(self.total)

    def __len__(self) -> int:
        return len(self.total)

    def json(self) -> Any:
        """The document of ``kerf score --json`` (schema kerf.score/1); of a model only."""
        if not self.document:
            raise UnsupportedError("scores of an array have no document; those of a model do")
        return json.loads(self.document)

    def __repr__(self) -> str:
        return f"<kerf.Scores of {self.source}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        rows = ((c, *(getattr(s, f) for f in _SHOWN)) for c, s in self.items())
        caption = f"{len(self.tensors)} tensors of {self.source}"
        return table(("codec", *_SHOWN), rows, caption)


def score(
    source: Any,
    formats: str | Iterable[str] = _DEFAULT,
    *,
    imatrix: Any = None,
    calibration: Path | None = None,
    feedback: bool = False,
    again: bool = False,
    keep: Sequence[str] = (),
    only: Sequence[str] = (),
    every: bool = False,
    dtype: str | None = None,
    threads: int = 0,
    nan: Nan = "error",
    device: str = "cpu",
    progress: Progress | None = None,
) -> Scores:
    """The error and size of a model, or of one array, in each format. Writes nothing.

    source:      path or Checkpoint of a model; or an array, as encode takes it
    formats:     names and patterns, as ``kerf score -f`` takes them: "nvfp4", ["nvfp4:*", "int4*"],
                 "all"; a pattern leaves out what cannot encode these tensors
    imatrix:     importance of columns: of a model, path or Checkpoint with F32 [columns] for each
                 tensor; of an array, an array of float32 [columns]
    calibration: of a model, what calibrate has made of it, or its path: the same as an imatrix, and
                 where it has Gram matrices, the error of outputs
    feedback:    encodes with error feedback by calibrate(gram=True), as quantize(feedback=True) does
    again:       goes over all columns again then, as quantize(again=True) does
    keep, only:  shell patterns of tensors that are left out, or of the only ones that are not
    every:       also tensors that quantize keeps by default
    dtype:       "bf16": the array is uint16 and holds the bits of bfloat16

    threads, nan, device and progress are those of encode and quantize. Raises ArgumentError,
    UnsupportedError (a codec that was asked for by name cannot encode a tensor), DataError.
    """
    codecs, named = find_codecs(formats)
    if not codecs:
        raise ArgumentError("formats: none is named")
    if not isinstance(source, (str, os.PathLike, Checkpoint)):
        if calibration is not None or feedback or again:
            given = "calibration" if calibration is not None else "feedback" if feedback else "again"
            raise ArgumentError(f"{given}: of a model; importance of an array's columns is imatrix")
        who = {"threads": threads, "nan": nan, "device": device, "progress": progress}
        return _score_array(source, codecs, named, imatrix, dtype, who)
    arena = Arena()
    model = source_of(source)
    request = arena.new("kerf_score_request *")
    request.select = _options.select(arena, keep, only, every)
    request.codec = arena.list("kerf_codec", codecs)
    request.codecs = len(codecs)
    request.required = arena.new("unsigned char[]", bytes(named) or b"\0")
    weights = source_of(imatrix) if imatrix is not None else None
    calibrated, request.feedback = calibration_for("score", calibration, feedback, again)
    if calibrated:
        request.calibration = calibrated
        call(lib.kerf_calibration_check, calibrated, model.handle)
        request.imatrix = lib.kerf_calibration_imatrix(calibrated)
    if weights:
        request.imatrix = weights.handle
    out = ffi.new("kerf_scores **")
    with _options.team(threads, nan, device) as team:
        run(
            lambda job, err: lib.kerf_score_checkpoint(model.handle, request, team, job, out, err),
            progress,
        )
    s = ffi.gc(out[0], lib.kerf_scores_close)
    names = [codec_name(s.codec[c]) for c in range(s.codecs)]
    return Scores(
        model.path,
        {name: _score_of(s.total + c) for c, name in enumerate(names)},
        {
            text(s.weight[t].name): {
                name: _score_of(s.score + t * s.codecs + c) for c, name in enumerate(names)
            }
            for t in range(s.tensors)
        },
        {codec_name(s.left_out[i].codec): text(s.left_out[i].reason) for i in range(s.left_outs)},
        _options.malloced(lib.kerf_scores_write, s),
        _options.text_of(lib.kerf_scores_text, s, 0),
    )


def _score_array(
    array: Any,
    codecs: list[Any],
    named: list[bool],
    importance: Any,
    dtype: str | None,
    who: dict[str, Any],
) -> Scores:
    total: dict[str, Score] = {}
    left_out: dict[str, str] = {}
    source = _arrays.floats(array, dtype)
    weights = ffi.NULL
    if importance is not None:
        count = source.shape[-1] if source.shape else 1
        columns = _arrays.require(_arrays.floats(importance, "f32"), 4 * count, "imatrix")
        weights = ffi.cast("float *", columns.address)
    for codec, required in zip(codecs, named):
        name = codec_name(codec)
        try:
            planes = encode(array, name, dtype=dtype, **who)
        except UnsupportedError as e:
            if required:
                raise
            left_out[name] = str(e)
            continue
        total[name] = _loss_of(planes, codec, source, weights, who)
    if not total:
        raise UnsupportedError(next(iter(left_out.values())))
    return Scores("an array", total, {"": dict(total)}, left_out)


def _loss_of(
    planes: Planes, codec: Any, source: _arrays.View, importance: Any, who: dict[str, Any]
) -> Score:
    g = geometry(codec, source.shape)
    views = plane_views(planes, g)
    spans = host_spans("kerf_cspan", views, g)
    sums = ffi.new("kerf_score *")
    with _options.team(who["threads"], who["nan"]) as team:
        run(
            lambda _job, err: lib.kerf_score_bands(
                g,
                0,
                g.bands,
                spans,
                source.span(),
                source.dtype,
                importance,
                team.member,
                sums,
                err,
            )
        )
    sums.elements, sums.bytes = g.elements, g.bytes
    return _score_of(sums)


# --- verify ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verified(Record):
    """One tensor of the source beside the one of the same name.

    name:     of the tensor
    source:   what it is in the source, other: in the other model ("" where it is missing)
    score:    what was lost; None where the two were compared byte for byte
    over:     figures that are over their limit: ("t2", ...)
    limits:   figure -> limit, of those that have one
    problem:  what is wrong besides figures, or ""
    """

    name: str
    source: str
    other: str
    score: Score | None
    over: tuple[str, ...]
    limits: dict[str, float]
    problem: str


@dataclasses.dataclass(frozen=True)
class Verification(Verdict):
    """A model beside its source.

    tensors:   one for each tensor of the source
    extra:     names that only the other model has
    total:     of all measured tensors
    measured, equal:  tensors that were measured, and that are equal byte for byte
    over:      limits that were exceeded; problems: tensors with a problem, and extras
    limits:    a limits file that allows what was measured and 2 % more, as a dict
    """

    source: str
    other: str
    tensors: tuple[Verified, ...] = dataclasses.field(repr=False)
    extra: tuple[str, ...]
    total: Score
    measured: int
    equal: int
    over: int
    problems: int
    limits: dict[str, Any] = dataclasses.field(repr=False)

    def _repr_html_(self) -> str:
        rows = (
            (t.name, t.source, t.other)
            + tuple(getattr(t.score, f) if t.score else "equal" for f in ("t2", "max_error"))
            + (", ".join(t.over) or t.problem,)
            for t in self.tensors
        )
        caption = f"{self.other}: {'passed' if self.passed else 'failed'}"
        return table(("tensor", "source", "other", "t2", "max_error", "problem"), rows, caption)


def _open_limits(limits: Path | Mapping[str, Any] | None) -> Any:
    if limits is None:
        return ffi.NULL
    out = ffi.new("kerf_limits **")
    if isinstance(limits, Mapping):
        data = json.dumps(limits).encode()
        call(lib.kerf_limits_parse, data, len(data), b"limits", out)
    else:
        call(lib.kerf_limits_open, Arena().text(limits), out)
    return ffi.gc(out[0], lib.kerf_limits_close)


def _weight_format(w: Any) -> str:
    name = ffi.new("char[64]")
    return text(lib.kerf_weight_format(w, name, 64)) if w != ffi.NULL else ""


def _verified(r: Any) -> Verified:
    return Verified(
        name=text(r.weight.name),
        source=_weight_format(r.weight),
        other=_weight_format(r.other),
        score=_score_of(ffi.addressof(r, "score")) if r.measured else None,
        over=tuple(name for f, name in _FIGURES.items() if r.over >> f & 1),
        limits={n: r.limit[f] for f, n in _FIGURES.items() if not math.isinf(r.limit[f])},
        problem=text(r.problem),
    )


def verify(
    source: Path | Checkpoint,
    other: Path | Checkpoint,
    limits: Path | Mapping[str, Any] | None = None,
    *,
    by_value: bool = False,
    exact: bool = False,
    calibration: Path | None = None,
    threads: int = 0,
    nan: Nan = "error",
    device: str = "cpu",
    progress: Progress | None = None,
) -> Verification:
    """Compares every tensor of a model with the one of the same name in another.

    limits:    path of a limits file (schema kerf.limits/1), or the same as a dict; None: t2 may be 16
               times that of normal numbers in each format, and 0.5 without outliers
    by_value:  measures dense tensors too, where their bytes may differ
    exact:     encodes every quantized tensor again, by its recorded encoder, and compares bytes
    calibration:  for exact, what the weights were rounded by with error feedback; without it exact
               says of each that it is needed
    nan:       for exact, what quantize was told of NaN and Inf

    That a tensor differs, is missing or over its limit is a result, not an exception: look at
    ``passed``, or use the result as a truth value. Raises FileError, DataError.
    """
    if calibration is not None and not exact:
        raise ArgumentError("verify: calibration= is for exact=True")
    model, candidate = source_of(source), source_of(other)
    allowed = _open_limits(limits)
    options = ffi.new(
        "kerf_verify_options *",
        {"limits": allowed, "by_value": int(by_value), "exact": int(exact)},
    )
    if calibration is not None:
        calibrated, moments = open_calibration(calibration), ffi.new("kerf_moments *")
        call(lib.kerf_calibration_moments, calibrated, moments)
        options.moments = moments
    out = ffi.new("kerf_verification **")
    with _options.team(threads, nan, device) as team:
        run(
            lambda job, err: lib.kerf_verify(
                model.handle, candidate.handle, options, team, job, out, err
            ),
            progress,
        )
    v = ffi.gc(out[0], lib.kerf_verification_close)
    return read(
        Verification,
        v,
        passed=bool(v.passed),
        tensors=tuple(_verified(v.row[i]) for i in range(v.rows)),
        extra=tuple(text(v.extra[i]) for i in range(v.extras)),
        total=_score_of(ffi.addressof(v, "total")),
        limits=json.loads(_options.malloced(lib.kerf_verification_limits, v)),
        document=_options.malloced(lib.kerf_verification_write, v),
        text=_options.text_of(lib.kerf_verification_text, v, 0),
        junit=_options.malloced(lib.kerf_verification_report, v, lib.KERF_VERIFY_JUNIT),
        markdown=_options.malloced(lib.kerf_verification_report, v, lib.KERF_VERIFY_MARKDOWN),
    )


# --- inspect -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Finding(Record):
    """Something wrong or odd.

    severity:  "error": readers get other numbers than were meant, or none; "note": odd
    tensor:    which tensor, or which file of the folder
    text:      one line
    """

    severity: str
    tensor: str
    text: str


class Inspection(tuple[Finding, ...]):
    """All findings, in the order of the tensors; true when there are any, as a tuple is."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Those by which readers get other numbers than were meant, or none."""
        return tuple(f for f in self if f.severity == "error")

    def _repr_html_(self) -> str:
        if not self:
            return "<p>nothing found</p>"
        return table(("", "where", "what"), ((f.severity, f.tensor, f.text) for f in self))


def inspect(model: Path | Checkpoint, *, progress: Progress | None = None) -> Inspection:
    """Looks for what is wrong in a model: scales that are NaN, infinite, negative or upside down;
    merged layers that were not quantized alike; tensors that belong to nothing; bytes that were meant
    another way; a config.json that disagrees.

    Raises only where something cannot be read: FileError, DataError.
    """
    found: list[Finding] = []
    checkpoint = source_of(model)

    def add(_ctx: Any, f: Any) -> None:
        found.append(read(Finding, f, severity=_SEVERITIES[f.severity]))

    tell = ffi.callback("kerf_found", add)
    run(lambda job, err: lib.kerf_inspect(checkpoint.handle, tell, ffi.NULL, job, err), progress)
    return Inspection(found)

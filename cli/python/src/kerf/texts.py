"""What a text says of a model: which inputs and weights matter, and what quantization lost in the end.

Models run layer by layer, in float32 on the processor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kerf import _options
from kerf._jobs import Progress, run
from kerf._library import Arena, call, enum, ffi, lib
from kerf._library import text as c_text
from kerf._records import Record, Verdict, read, table
from kerf.checkpoints import Checkpoint, Path, open_calibration, source_of
from kerf.errors import ArgumentError, DataError
from kerf.writing import check_files

_BY = {"kl": "KERF_ALPHA_BY_KL", "loss": "KERF_ALPHA_BY_LOSS", "none": "KERF_ALPHA_BY_NONE"}
_FIGURES = enum("kerf_eval_figure", "KERF_EVAL_")
_FIGURES.pop(lib.KERF_EVAL_FIGURES, None)
_LONGEST = 2048  # tokens of a row where nothing says how many

# --- tokens ------------------------------------------------------------------------------------


def tokenize(model: Path | Checkpoint, words: str, *, template: bool = False) -> NDArray[np.uint32]:
    """The tokens of a text (words) by the tokenizer of a model, uint32 [n].

    template:  also what the model's template puts around a text: a token that begins it, as a rule

    Raises UnsupportedError where the tokenizer is of another kind than kerf reads, FileError, DataError:
    a file that is damaged, or half of a character in words.
    """
    if not isinstance(words, str):
        raise ArgumentError(f"words: expected a text, not {words!r:.80}")
    arena = Arena()
    data = words.encode(errors="surrogatepass")  # which the library refuses, with the place
    with _tokenizer(source_of(model)) as t, _token_list() as tokens:
        options = arena.new("kerf_tokenize_options *", {"template_tokens": int(template)})
        call(lib.kerf_tokenizer_encode, t, arena.new("char[]", data), len(data), options, tokens)
        return _array_of(tokens)


@contextlib.contextmanager
def _tokenizer(model: Checkpoint) -> Iterator[Any]:
    out = ffi.new("kerf_tokenizer **")
    call(lib.kerf_tokenizer_open_for, model.handle, out)
    try:
        yield out[0]
    finally:
        lib.kerf_tokenizer_close(out[0])


@contextlib.contextmanager
def _token_list() -> Iterator[Any]:
    tokens = ffi.new("kerf_token_list *")
    try:
        yield tokens
    finally:
        lib.kerf_token_list_free(tokens)


def _array_of(tokens: Any) -> NDArray[np.uint32]:
    if tokens.count == 0:
        return np.empty(0, np.uint32)
    return np.frombuffer(ffi.buffer(tokens.token, 4 * tokens.count), np.uint32).copy()


def _given_array(tokens: Any, vocabulary: int) -> tuple[NDArray[np.uint32], int]:
    given = np.asarray(tokens)
    if given.dtype.kind not in "iu" or given.ndim not in (1, 2) or given.size == 0:
        raise ArgumentError("tokens: a path, or integers [n] or [rows, length]")
    if given.min() < 0 or given.max() >= vocabulary:
        raise DataError(f"tokens: a number that the vocabulary of {vocabulary} does not have")
    return given.reshape(-1).astype(np.uint32), given.shape[1] if given.ndim == 2 else 0


def _rows_of(
    model: Checkpoint,
    words: Path | None,
    tokens: Any,
    length: int | None,
    rows: slice | None,
    bos: bool,
) -> NDArray[np.uint32]:
    """uint32 [rows, length] of a file of text, or of tokens: as the command cuts them."""
    if (words is None) == (tokens is None):
        raise ArgumentError("give text= (a file of text) or tokens= (a file, or an array of integers)")
    about = ffi.new("kerf_decoder **")
    call(lib.kerf_decoder_open, model.handle, ffi.NULL, about)
    decoder = ffi.gc(about[0], lib.kerf_decoder_close)
    info = lib.kerf_decoder_about(decoder)
    arena = Arena()
    context = min(info.context or _LONGEST, _LONGEST)
    if tokens is not None and not isinstance(tokens, (str, os.PathLike)):
        if bos:
            raise ArgumentError("bos= is for files; rows of an array begin as they do")
        found, width = _given_array(tokens, info.vocab)
    else:
        with _token_list() as out:
            if words is not None:
                with _tokenizer(model) as t:
                    call(lib.kerf_tokenizer_encode_file, t, arena.text(words), ffi.NULL, out)
            elif tokens is not None:
                call(lib.kerf_tokens_read, arena.text(tokens), info.vocab, out)
            if bos:
                call(lib.kerf_tokens_begin_rows, model.handle, length or context, out)
            found, width = _array_of(out), out.length
    width = length or (width if width > 1 else context)
    if width < 2 or found.size < width:
        raise ArgumentError(
            f"{found.size} tokens in rows of {width}: rows of at least two tokens are needed, and one "
            "of them; length= takes shorter rows"
        )
    cut = found[: found.size // width * width].reshape(-1, width)
    cut = cut if rows is None else cut[rows]
    if cut.ndim != 2 or not len(cut):
        raise ArgumentError(f"rows={rows}: no row is left")
    return np.ascontiguousarray(cut)


def _set_tokens(target: Any, rows: NDArray[np.uint32]) -> None:
    target.token = ffi.cast("uint32_t *", rows.ctypes.data)
    target.rows, target.length = rows.shape


# --- calibrate ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CalibratedWeight(Record):
    """What a calibration says of one weight.

    name:         of the weight
    alpha:        rise of KL (or loss) per t2 of this weight; None: not measured
    alpha_error:  its standard error
    amax:         largest |x| of its inputs; None: not known
    gram:         whether there is a Gram matrix of its inputs
    """

    name: str
    alpha: float | None
    alpha_error: float | None
    amax: float | None
    gram: bool


@dataclasses.dataclass(frozen=True)
class Calibration(Record):
    """A folder that advise, score and quantize read: calibration= of each takes this as its path, and so
    does imatrix= of quantize, for the importance of columns alone.

    path:      of the folder
    tokens:    that it was made from
    alpha_by:  what alpha is a rise of: "kl", "loss"; None: it was not measured
    weights:   one for each weight that the text went through
    """

    path: str
    tokens: int
    alpha_by: str | None
    weights: tuple[CalibratedWeight, ...] = dataclasses.field(repr=False)
    document: str = dataclasses.field(repr=False)

    def __fspath__(self) -> str:
        return self.path

    def json(self) -> Any:
        """The document of ``kerf calibrate --json`` (schema kerf.calibrate/1)."""
        return json.loads(self.document)

    def _repr_html_(self) -> str:
        head = ("weight", "alpha", "±", "largest input")
        rows = ((w.name, w.alpha, w.alpha_error, w.amax) for w in self.weights)
        return table(head, rows, f"{self.path}: {self.tokens:,} tokens")


def calibrate(
    source: Path | Checkpoint,
    out: Path,
    *,
    text: Path | None = None,
    tokens: Any = None,
    length: int | None = None,
    rows: slice | None = None,
    bos: bool = False,
    alpha: Literal["kl", "loss", "none"] = "kl",
    draws: int = 4,
    noise: float = 0.02,
    gram: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    threads: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Calibration:
    """Runs a text through a model, and writes a folder of what its inputs are like and how much each
    weight matters.

    source:     path or Checkpoint of a model of a family that kerf runs
    out:        the folder to write; with overwrite what is there is replaced
    text:       path of a text, cut by the tokenizer of the model; or
    tokens:     path of a file of tokens (.u16, .u32, .npy, .safetensors), or integers [n] or
                [rows, length]
    length:     tokens of a row, each a text of its own; None: as the file has them, else the model's
                context, 2048 at most
    rows:       slice(0, 8): these rows alone
    bos:        rows of a file begin as the model's tokenizer lets a text begin, with a token like <bos>
    alpha:      what noise in a group of weights is judged by: divergence of the next token, loss, or
                none of it: one pass over the text
    draws:      of noise for each group, 2 to 64; noise: its t2
    gram:       also the Gram matrix of each input, float32 [columns, columns], which
                feedback=True of quantize, score and advise takes
    resume:     go on with what a killed call of the same request has left
    threads:    0: all; the numbers do not depend on it
    device:     "cpu", or "cuda" or "cuda:N": the model runs on that GPU, by cuBLASLt; or "cuda:0,1"
                or "cuda:all": these share the rows

    Stopped by Ctrl-C or by what progress raises, nothing is left, unless resume is true. Raises
    ArgumentError, DataError, ExistsError, FileError, UnsupportedError (another family).
    """
    arena = Arena()
    model = source_of(source)
    check_files([model.path, text, tokens if isinstance(tokens, (str, os.PathLike)) else None], [out])
    given = _rows_of(model, text, tokens, length, rows, bos)
    request = arena.new("kerf_calibrate_request *")
    _set_tokens(request.tokens, given)
    request.alpha = _options.choice("alpha", alpha, _BY)
    request.draws, request.noise, request.gram = draws, noise, int(gram)
    request.path = arena.text(out)
    request.overwrite, request.resume = int(overwrite), int(resume)
    with _options.team(threads, device=device, handles=1) as team:
        request.team = team
        run(
            lambda job, err: lib.kerf_calibrate(model.handle, request, team.member, job, err),
            progress,
        )
    written = open_calibration(out)
    document = _options.malloced(
        lib.kerf_calibration_write, written, model.handle, lib.KERF_CALIBRATION_JSON
    )
    said = json.loads(document)
    weights = tuple(
        CalibratedWeight(w["name"], w.get("alpha"), w.get("alpha_error"), w.get("amax"), w["gram"])
        for w in said["weights"]
    )
    return Calibration(os.fspath(out), said["tokens"], said["alpha_by"], weights, document)


# --- evaluate ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Evaluated(Record):
    """One model on a text. What compares it with the source is 0 for the source itself.

    path:        of the model
    quantized:   weights that are
    bits:        per weight, of all tensors
    inputs:      formats that inputs of layers are rounded to while it runs: ("nvfp4",); () of none
    cache:       format that keys and values are rounded to; "" where they are not
    loss:        mean of -ln p(next token), in nats; perplexity: e to it
    perplexity_rise:  perplexity over that of the source, less 1
    kl:          mean KL(source || this) of the next token, in nats; kl_low and kl_high: 95 % of
                 drawings of rows anew, NaN of one row; kl_p99: 99th percentile over predictions;
                 kl_most: the largest
    flips:       share of predictions with another most likely token
    drift:       relative distance of the states behind each layer
    over:        figures that are over their limit: ("kl", ...)
    """

    path: str
    quantized: int
    bits: float
    inputs: tuple[str, ...]
    cache: str
    loss: float
    perplexity: float
    perplexity_rise: float
    kl: float
    kl_low: float
    kl_high: float
    kl_p99: float
    kl_most: float
    flips: float
    drift: tuple[float, ...] = dataclasses.field(repr=False)
    over: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Evaluation(Verdict):
    """Models beside their source on one text; true where nothing is over a limit.

    source:       the model that the others are held beside
    models:       the others, in the order of the call
    predictions:  tokens that were predicted, in so many rows of so many tokens (length)
    """

    source: Evaluated
    models: tuple[Evaluated, ...]
    rows: int
    length: int
    predictions: int

    def _repr_html_(self) -> str:
        head = ("model", "bits", "inputs", "cache", "perplexity", "KL", "99th", "same top", "over")
        figures = ("perplexity", "kl", "kl_p99")
        rows = (
            (m.path, m.bits, ", ".join(m.inputs), m.cache, *(getattr(m, f) for f in figures))
            + (f"{100 * (1 - m.flips):.2f} %", ", ".join(m.over))
            for m in (self.source, *self.models)
        )
        return table(head, rows, f"{self.predictions:,} predictions")


def _eval_limits(arena: Arena, limits: Path | Mapping[str, float] | None) -> Any:
    if limits is None:
        return ffi.NULL
    out = arena.new("kerf_eval_limits *")
    if not isinstance(limits, Mapping):
        call(lib.kerf_eval_limits_read, arena.text(limits), out)
        return out
    unknown = set(limits) - set(_FIGURES.values()) - {"schema"}
    if unknown:
        known = ", ".join(_FIGURES.values())
        raise ArgumentError(f"limits: {', '.join(sorted(unknown))}: known are {known}")
    for f, name in _FIGURES.items():
        out.most[f] = limits.get(name, math.inf)
        if not out.most[f] >= 0:
            raise ArgumentError(f"limits: {name}={out.most[f]}: a number of 0 or more")
    return out


def _evaluated(m: Any, layers: int) -> Evaluated:
    return read(
        Evaluated,
        m,
        inputs=tuple(c_text(f.name) for f in itertools.takewhile(bool, m.rounds.inputs)),
        cache=c_text(m.rounds.cache.name) if m.rounds.cache else "",
        **{name: m.figure[f] for f, name in _FIGURES.items()},
        drift=tuple(m.drift[i] for i in range(layers)) if m.drift else (),
        over=tuple(name for f, name in _FIGURES.items() if m.over >> f & 1),
    )


def evaluate(
    source: Path | Checkpoint,
    *models: Path | Checkpoint,
    text: Path | None = None,
    tokens: Any = None,
    length: int | None = None,
    rows: slice | None = None,
    bos: bool = False,
    limits: Path | Mapping[str, float] | None = None,
    weights_only: bool = False,
    threads: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Evaluation:
    """What models have lost: they and their source see the same tokens, and the distributions that they
    give the next one are compared. Without models: the perplexity of the source.

    limits:  path of a limits file (schema kerf.eval-limits/1), or a dict of the most that kl, kl_p99,
             flips and perplexity_rise may be
    weights_only:  weights alone are as they are stored; else inputs of layers and the KV cache are
                   rounded, too, where runtimes do it by the config.json of a model

    source, text, tokens, length, rows, bos, threads, device and progress are those of calibrate. A model
    over its limit is a result, not an exception: look at ``passed``, or use the result as a truth
    value. Raises ArgumentError (other sizes than the source), DataError, FileError, UnsupportedError.
    """
    arena = Arena()
    opened = [source_of(m) for m in (source, *models)]
    given = _rows_of(opened[0], text, tokens, length, rows, bos)
    request = arena.new("kerf_eval_request *")
    request.source = opened[0].handle
    request.candidate = arena.list("kerf_checkpoint *", [m.handle for m in opened[1:]])
    request.candidates = len(models)
    _set_tokens(request.tokens, given)
    request.limits = _eval_limits(arena, limits)
    request.weights_only = bool(weights_only)
    out = ffi.new("kerf_evaluation **")
    with _options.team(threads, device=device) as team:
        run(lambda job, err: lib.kerf_eval(request, team.member, job, out, err), progress)
    e = ffi.gc(out[0], lib.kerf_evaluation_close)
    return read(
        Evaluation,
        e,
        passed=bool(e.passed),
        source=_evaluated(e.model[0], e.layers),
        models=tuple(_evaluated(e.model[i], e.layers) for i in range(1, e.models)),
        document=_options.malloced(lib.kerf_evaluation_write, e),
        text=_options.text_of(lib.kerf_evaluation_text, e),
        junit=_options.malloced(lib.kerf_evaluation_report, e, lib.KERF_EVAL_JUNIT),
        markdown=_options.malloced(lib.kerf_evaluation_report, e, lib.KERF_EVAL_MARKDOWN),
    )

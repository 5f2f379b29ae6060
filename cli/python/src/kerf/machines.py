"""Machines, and how long products and models take on them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from kerf._hub import model_path
from kerf._jobs import Progress, run
from kerf._library import Arena, Handle, call, enum, ffi, lib, text
from kerf._options import malloced, open_device, text_of
from kerf._records import Record, read, table
from kerf.checkpoints import Path
from kerf.errors import ArgumentError
from kerf.formats import find_codec

_FACTS = range(lib.KERF_FACT_COUNT)
_BOUNDS = enum("kerf_bound", "KERF_BOUND_")


# --- hardware ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fact(Record):
    """One figure of a machine.

    value, unit:  4800.0, "GB/s"
    text:         what it is
    source, date: where the number stands
    unverified:   sources disagree, or none is first hand
    """

    value: float
    unit: str
    text: str
    source: str
    date: str
    unverified: bool


class Hardware(Handle):
    """What a machine can do: one of the registry, or one's own.

    Hardware("h200")      by its name in the registry: Hardware.names()
    Hardware("my.json")   from a file, as ``kerf hardware --measure`` and ``save`` write it
    """

    _instead = "pass its name, or the file that save writes"

    def __init__(self, name: Path) -> None:
        out = ffi.new("kerf_hardware **")
        call(lib.kerf_hardware_get, Arena().text(name), out)
        self.handle = ffi.gc(out[0], lib.kerf_hardware_close)

    @staticmethod
    def names() -> tuple[str, ...]:
        """The machines of the registry."""
        count = lib.kerf_hardware_count()
        return tuple(text(lib.kerf_hardware_at(i).name) for i in range(count))

    @classmethod
    def measure(
        cls,
        formats: Sequence[str] = ("bf16", "nvfp4", "mxfp4", "int8", "int4-g128"),
        *,
        base: Hardware | None = None,
        shapes: Sequence[tuple[int, int]] = (),
        batches: Sequence[int] = (1,),
        trials: int = 0,
        threads: int = 0,
        device: int | None = None,
        progress: Progress | None = None,
    ) -> Hardware:
        """Times kerf's products on this machine and makes a machine of them that predict and advise
        use.

        formats:  at least one; shapes: (outputs, inputs), four at least, or the library's own 24
                  (200 on a GPU); batches: columns of X, 1 to 16
        base:     what is known of the machine, whose facts are taken over
        trials:   of which the median counts; 0: 21
        device:   number of a GPU; None: the processor

        Takes 256 MiB of memory, and minutes. Raises DataError where a kernel gives wrong results.
        """
        arena = Arena()
        request = arena.new("kerf_measure_request *")
        found = [find_codec(f).format for f in formats]
        request.format, request.formats = arena.list("const kerf_format *", found), len(found)
        sizes = [{"n": n, "k": k} for n, k in shapes]
        request.shape, request.shapes = arena.list("kerf_weight_shape", sizes), len(sizes)
        request.batch, request.batches = arena.list("unsigned", batches), len(batches)
        who = arena.new("kerf_exec *", {"threads": threads})
        if device is not None:
            who.device = gpu = open_device(device)  # noqa: F841 - open until the call is over
        request.timer.exec, request.timer.trials = who, trials
        out = ffi.new("kerf_hardware **")
        known = base.handle if base else ffi.NULL
        run(lambda job, err: lib.kerf_measure_machine(request, known, job, out, err), progress)
        made = cls.__new__(cls)
        made.handle = ffi.gc(out[0], lib.kerf_hardware_close)
        return made

    name = property(lambda self: text(self.handle.name), doc='"h200"')
    title = property(lambda self: text(self.handle.title), doc='"NVIDIA H200 SXM"')
    kind = property(lambda self: text(self.handle.kind), doc='"gpu" or "cpu"')
    arch = property(lambda self: text(self.handle.arch), doc='"sm_90", or ""')
    note = property(lambda self: text(self.handle.note), doc="what to beware of, or an empty text")

    @property
    def facts(self) -> dict[str, Fact]:
        """Key -> what is known: "bandwidth_gbps", "memory_gb", "bf16_tflops", ..."""
        return {
            text(lib.kerf_fact_key(i)): read(
                Fact,
                self.handle.fact[i],
                unit=text(lib.kerf_fact_unit(i)),
                text=text(lib.kerf_fact_text(i)),
                unverified=bool(self.handle.fact[i].unverified),
            )
            for i in _FACTS
            if self.handle.fact[i].value > 0
        }

    def json(self) -> Any:
        """The machine as ``kerf hardware NAME --json`` prints it (schema kerf.hardware/1)."""
        return json.loads(malloced(lib.kerf_hardware_json, self.handle))

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Writes json() to a file that Hardware(path), with a name in .json, reads. ExistsError."""
        replace_file(path, malloced(lib.kerf_hardware_json, self.handle), overwrite)

    def __str__(self) -> str:
        """What ``kerf hardware NAME --wide`` prints."""
        return text_of(lib.kerf_hardware_text, self.handle)

    def __repr__(self) -> str:
        return f"<kerf.Hardware {self.name!r}: {self.title}>"

    def _repr_html_(self) -> str:
        rows = ((f.text, f.value, f.unit, f"{f.source}, {f.date}") for f in self.facts.values())
        return table(("", "", "unit", "source"), rows, f"{self.name}: {self.title}")


def replace_file(path: Path, content: str, overwrite: bool) -> None:
    """Writes a text file whole or not at all."""
    data = content.encode("utf-8", "surrogateescape")
    call(lib.kerf_file_replace, Arena().text(path), data, len(data), int(overwrite))


# --- predict -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Prediction(Record):
    """How long something takes, in microseconds.

    tier:            how sure it is: "table", "fitted", or "spec-only": a band from the data sheet,
                     whose middle ranks formats and promises no time
    bound:           the largest part: "fixed", "memory", "decode" or "math"
    us:              the time; low_us, high_us: the band
    fixed_us, memory_us, decode_us, math_us:  parts; spec-only: of low_us
    intensity, ridge: operations per byte: of the work, and where the machine's bound changes
    extrapolated:    the table does not reach this shape
    """

    tier: str
    bound: str
    us: float
    low_us: float
    high_us: float
    fixed_us: float
    memory_us: float
    decode_us: float
    math_us: float
    intensity: float
    ridge: float
    extrapolated: bool


@dataclasses.dataclass(frozen=True)
class Operator(Record):
    """One kind of work of a step: name, how often (count), bytes moved and operations of one, its
    time."""

    name: str
    count: float
    bytes: float
    flops: float
    time: Prediction


@dataclasses.dataclass(frozen=True)
class Step(Record):
    """One step of a model: decoding, or prefill.

    weight_bytes:  of all parameters; cache_bytes: of the context of all sequences
    gpu_bytes:     of both together on one of the GPUs
    fits:          those are in its memory; None: it is not known
    bytes, flops:  of the step, on one of the GPUs
    tokens_per_s:  at high_us and at low_us, all sequences together
    crossover:     the context at which a step reads as much cache as weights, tokens; inf: never
    estimated:     of this family of models only the sizes are known, the rest is as in most models
    """

    time: Prediction
    tokens_per_s: tuple[float, float]
    weight_bytes: float
    cache_bytes: float
    gpu_bytes: float
    fits: bool | None
    bytes: float
    flops: float
    crossover: float
    estimated: bool
    operators: tuple[Operator, ...] = dataclasses.field(repr=False)

    def _repr_html_(self) -> str:
        t = self.time
        caption = f"{t.low_us:.4g} to {t.high_us:.4g} µs a step ({t.tier})"
        rows = (
            (o.name, o.count, o.bytes / 1e6, o.flops / 1e9, o.time.us, o.time.tier, o.time.bound)
            for o in self.operators
        )
        return table(("operator", "times", "MB", "Gflop", "µs each", "tier", "bound"), rows, caption)


def _prediction_of(p: Any) -> Prediction:
    return read(
        Prediction,
        p,
        tier=text(lib.kerf_tier_name(p.tier)),
        bound=text(lib.kerf_bound_name(p.bound)),
        extrapolated=bool(p.extrapolated),
    )


def _format(name: str | None) -> Any:
    return ffi.NULL if name is None else find_codec(name).format


def predict(
    hardware: Hardware | Path,
    work: tuple[int, int] | Path,
    format: str = "bf16",
    *,
    batch: float = 1,
    context: float = 4096,
    prefill: bool = False,
    activations: str | None = None,
    experts: str | None = None,
    head: str | None = None,
    kv: str | None = None,
    gpus: int = 1,
    expert_parallel: bool = False,
) -> Any:
    """How long a product or a step of a model takes on a machine.

    hardware:     a Hardware, a name of the registry or a file
    work:         (outputs, inputs) of a weight: a Prediction of its product with `batch` columns; or
                  the path of a config.json or of its folder: a Step of the model
    format:       of the weights; experts, head, kv: others for these; activations: of the inputs
    batch:        columns, or sequences; context: tokens of each; prefill: all of them at once
    gpus:         so many of this machine share every layer of the model; what they exchange is in the
                  times; expert_parallel: each expert is whole on one of them

    Every prediction says how sure it is (``tier``). Raises ArgumentError, UnsupportedError: a mixture
    of layers that is not known, DataError: a config.json with something missing.
    """
    machine = hardware if isinstance(hardware, Hardware) else Hardware(hardware)
    if isinstance(work, tuple):
        if len(work) != 2 or prefill or experts or head or kv or gpus != 1:
            raise ArgumentError(
                "a product has (outputs, inputs), and no experts, head, kv, prefill or gpus"
            )
        product = ffi.new("kerf_matmul *")
        product.format, product.activations = find_codec(format).format, _format(activations)
        product.n, product.k = work
        product.rows = batch
        out = ffi.new("kerf_prediction *")
        call(lib.kerf_predict, machine.handle, product, out)
        return _prediction_of(out)
    model = ffi.new("kerf_model *")
    call(lib.kerf_model_open, Arena().text(model_path(work)), model)
    formats = ffi.new("kerf_formats *")
    formats.linear, formats.experts = find_codec(format).format, _format(experts)
    formats.head, formats.kv, formats.activations = _format(head), _format(kv), _format(activations)
    phase = ffi.new("kerf_phase *", {"batch": batch, "context": context, "prefill": int(prefill)})
    share = ffi.new("kerf_model *")  # what one GPU has
    call(lib.kerf_model_shard, model, check_gpus(gpus, expert_parallel), int(expert_parallel), share)
    return _step(machine, model, share, formats, phase)


def check_gpus(gpus: int, expert_parallel: bool) -> int:
    """gpus; ArgumentError: it is no number of GPUs that can have experts so."""
    if gpus < 1:
        raise ArgumentError(f"gpus={gpus}: one at least")
    if expert_parallel and gpus == 1:
        raise ArgumentError("expert_parallel needs gpus=N")
    return gpus


def _step(machine: Hardware, model: Any, share: Any, formats: Any, phase: Any) -> Step:
    step = ffi.new("kerf_step *")
    weights, cached, held, held_cache, crossover = (ffi.new("double *") for _ in range(5))
    for m, size, of_one in ((model, weights, cached), (share, held, held_cache)):
        call(lib.kerf_model_bytes, m, formats, size)
        call(lib.kerf_model_cache_bytes, m, formats.kv, phase.context, of_one)
    call(lib.kerf_model_crossover, model, formats, phase.batch, crossover)
    call(lib.kerf_model_plan, share, machine.handle, formats, phase, step)
    on_gpu = held[0] + held_cache[0] * phase.batch
    memory = machine.handle.fact[lib.KERF_FACT_MEMORY].value * 1e9
    return Step(
        time=_prediction_of(step.time),
        tokens_per_s=(step.tokens_per_s[0], step.tokens_per_s[1]),
        weight_bytes=weights[0],
        cache_bytes=cached[0] * phase.batch,
        gpu_bytes=on_gpu,
        fits=on_gpu <= memory if memory else None,
        bytes=step.bytes,
        flops=step.flops,
        crossover=crossover[0],
        estimated=bool(model.estimated),
        operators=tuple(
            Operator(
                text(o.name),
                o.count,
                lib.kerf_work_bytes(ffi.addressof(o, "work")),
                o.work.flops,
                _prediction_of(o.time),
            )
            for o in (step.op[i] for i in range(step.ops))
        ),
    )

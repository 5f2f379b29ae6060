#!/usr/bin/env python3
"""gemv_gpu.py - matrix-vector products of other projects on the GPU, and ours between them.

    python3 bench/peers/gemv_gpu.py [--peers LIST] [--shapes LIST] [--columns 1,4,16] [--kerf LIBRARY]
                                    [--replays N] [--budget SECONDS] [-o FILE | --into RESULT.json]

The method of bench/gemv_cuda.c: weights rotate over distinct allocations of a gigabyte in total, x
and y stay in L2, a CUDA graph holds at least 100 calls, and all contestants of a shape take turns;
the error is that of sampled rows against double arithmetic on the weights that each one has, over
rms(y). Whatever a peer does per call is in its time: kernels that clear or reduce as well.

    cublas        torch.nn.functional.linear in fp16
    scaled_mm     torch._scaled_mm, FP8 with a scale per tensor; 16 columns, x already in FP8
    tinygemm      torch._weight_int4pack_mm, 4 bits in groups of 128, bf16
    gemlite       GemLite 0.6 (PyPI), after its own autotuning: INT4 g128, MXFP4 and FP8 weights
    bitsandbytes  torch.ops.bitsandbytes.gemm_4bit, NF4 in blocks of 64
    kerf          with --kerf: libkerf.so through ctypes, plain and in a chain

Needs PyTorch with CUDA; peers that cannot be imported are named and left out."""
import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

STARTED = time.monotonic()
SHAPES = "4096x4096,14336x4096,4096x14336,8192x8192,28672x8192,7168x16384"
PEERS = ("cublas,scaled_mm,tinygemm,gemlite-int4,gemlite-mxfp4,gemlite-fp8,bitsandbytes,"
         "kerf-nvfp4,kerf-mxfp4,kerf-int4-g128,kerf-int4-g128-asym,kerf-nf4,kerf-fp8-e4m3-row,kerf-fp16")
ROTATED = 1.05e9
SAMPLES = 48
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]


class Contestant:
    """One product: calls[i]() runs it with the i-th copy of the weights."""

    def __init__(self, by, form, columns, nbytes, calls, rows, exact_rows, x, chain=False):
        self.by, self.form, self.columns, self.bytes, self.calls = by, form, columns, nbytes, calls
        self.rows, self.exact_rows, self.x, self.chain = rows, exact_rows, x, chain
        self.times, self.graph, self.rms = [], None, None


def sample(n):
    return torch.arange(SAMPLES, device="cuda") * (n - 1) // (SAMPLES - 1)


def copies_for(nbytes):
    return max(3, int(ROTATED / nbytes) + 1)


def table(values):
    return torch.tensor(values, dtype=torch.float64, device="cuda")


def nibbles(packed, high_first):
    """[N, K/2] bytes as [N, K] codes."""
    low, high = packed & 15, packed >> 4
    pair = (high, low) if high_first else (low, high)
    return torch.stack(pair, -1).reshape(packed.shape[0], -1).long()


def spread(values, group):
    return values.double().repeat_interleave(group, 1)


def random_bytes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")


def small(k):
    return 1 / math.sqrt(k)


# --- peers ---------------------------------------------------------------------------------------
# Each: (n, k, columns) -> contestants.

def cublas(n, k, columns):
    w = [torch.randn(n, k, device="cuda", dtype=torch.float16) * small(k) for _ in range(copies_for(2 * n * k))]
    r = sample(n)
    for c in columns:
        x = torch.randn(c, k, device="cuda", dtype=torch.float16)
        yield Contestant("cublas", "fp16", c, 2 * n * k,
                         [lambda m=m, x=x: torch.nn.functional.linear(x, m) for m in w], r, w[0][r].double(), x)


def scaled_mm(n, k, columns):
    f8 = torch.float8_e4m3fn
    w = [(torch.randn(n, k, device="cuda") * 50).to(f8) for _ in range(copies_for(n * k))]
    r = sample(n)
    one, scale = torch.ones((), device="cuda"), torch.tensor(small(k) / 50, device="cuda")
    x = torch.randn(16, k, device="cuda", dtype=torch.float16)
    x8 = x.to(f8)
    yield Contestant("scaled_mm", "fp8-e4m3", 16, n * k,
                     [lambda m=m: torch._scaled_mm(x8, m.t(), one, scale, out_dtype=torch.float16,
                                                   use_fast_accum=True) for m in w],
                     r, w[0][r].double() * scale.double(), x)


def tinygemm(n, k, columns):
    group = 128
    nbytes = n * k // 2 + n * k // group * 4
    codes = random_bytes(n, k // 2)
    packed = torch._convert_weight_to_int4pack(codes, 8)
    w = [packed] + [torch.randint_like(packed, -2**31, 2**31 - 1) for _ in range(copies_for(nbytes) - 1)]
    scale = lambda: torch.stack([(torch.rand(k // group, n, device="cuda") + 0.5) * small(k) / 4,
                                 torch.randn(k // group, n, device="cuda") * small(k) / 8], -1).bfloat16()
    s = [scale() for _ in w]
    r = sample(n)
    value = (nibbles(codes[r], True).double() - 8) * spread(s[0][:, r, 0].t(), group) + spread(s[0][:, r, 1].t(), group)
    for c in columns:
        x = torch.randn(c, k, device="cuda", dtype=torch.bfloat16)
        yield Contestant("tinygemm", "int4-g128-asym", c, nbytes,
                         [lambda a=a, b=b, x=x: torch._weight_int4pack_mm(x, a, group, b) for a, b in zip(w, s)],
                         r, value, x)


def bitsandbytes(n, k, columns):
    import bitsandbytes  # noqa: F401 (registers its operators)
    nbytes = n * k // 2 + n * k // 64 * 4
    w = [random_bytes(n * k // 2, 1) for _ in range(copies_for(nbytes))]
    s = [torch.rand(n * k // 64, device="cuda") * small(k) * 2 + 1e-4 for _ in w]
    r = sample(n)
    value = table(NF4)[nibbles(w[0].view(n, k // 2)[r], True)] * spread(s[0].view(n, -1)[r], 64)
    for c in columns:
        x = torch.randn(c, k, device="cuda", dtype=torch.float16)
        yield Contestant("bitsandbytes", "nf4", c, nbytes,
                         [lambda a=a, b=b, x=x: torch.ops.bitsandbytes.gemm_4bit(x, a, [n, k], b, 64, "nf4")
                          for a, b in zip(w, s)], r, value, x)


def quick_tuning(compile_only):
    """GemLite's own search over its own configurations, timed in 2 ms instead of 125."""
    import gemlite.triton_kernels as kernels
    import triton
    cold = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")

    def bench(call, quantiles=None, **_):
        call()
        if compile_only:
            torch.cuda.synchronize()
            return [1.0, 1.0, 1.0]
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(7)]
        for a, b in events:
            cold.zero_()
            a.record()
            call()
            b.record()
        torch.cuda.synchronize()
        return [statistics.median(a.elapsed_time(b) for a, b in events)] * 3

    for module in vars(kernels).values():
        for name, tuner in list(vars(module).items()) if isinstance(module, type(sys)) else []:
            while tuner is not None and not isinstance(tuner, triton.runtime.Autotuner):
                tuner = getattr(tuner, "fn", None) if type(tuner).__module__.startswith("triton") else None
            if tuner is not None:
                tuner.__dict__["do_bench"] = tuner._do_bench = bench
                tuner.pre_hook = lambda *_, **__: None   # saves and restores the weights around each try
                tuner.post_hook = lambda *_, **__: None


def gemlite(kind, n, k, columns, few=False):
    from gemlite import helper
    from gemlite.core import forward_functional
    r = sample(n)
    if kind == "int4":
        codes, group = torch.randint(0, 16, (n, k), dtype=torch.uint8, device="cuda"), 128
        scales = (torch.rand(n, k // group, device="cuda") + 0.5).half() * small(k) / 4
        zeros = torch.full_like(scales, 8)
        layer = helper.A16W4_HQQ_INT(dtype=torch.float16).from_weights(codes, scales.view(-1, 1), zeros.view(-1, 1))
        value = (codes[r].double() - 8) * spread(scales[r], group)
        form, nbytes = "int4-g128-asym", n * k // 2 + n * k // group * 4
    elif kind == "mxfp4":
        codes = torch.randint(0, 16, (n, k), dtype=torch.uint8, device="cuda")
        e8m0 = torch.randint(117, 122, (n, k // 32), dtype=torch.uint8, device="cuda")
        layer = helper.A16W4_MXFP(dtype=torch.float16).from_weights(codes, e8m0.view(torch.float8_e8m0fnu))
        value = table(E2M1)[codes[r].long()] * spread(torch.exp2(e8m0[r].double() - 127), 32)
        form, nbytes = "mxfp4", n * k // 2 + n * k // 32
    else:
        dense = torch.randn(n, k, device="cuda") * small(k)
        scales = dense.abs().amax(1, keepdim=True).float() / 448
        value = (dense[r] / scales[r]).to(torch.float8_e4m3fn).double() * scales[r].double()
        layer = helper.A16W8_FP8(dtype=torch.float16).from_weights(dense)
        form, nbytes = "fp8-e4m3-row", n * k + 4 * n
        del dense
    first = layer.get_tensor_args()
    meta = layer.get_meta_args()
    sets = [first]
    for _ in range(0 if few else copies_for(nbytes) - 1):
        w = first[0]
        other = torch.empty_strided(w.shape, w.stride(), dtype=w.dtype, device="cuda")
        if w.is_floating_point():
            other.copy_((torch.randn(w.shape, device="cuda") * 100).to(w.dtype))
        else:
            limits = torch.iinfo(w.dtype)
            other.copy_(torch.randint(limits.min, limits.max, w.shape, dtype=w.dtype, device="cuda"))
        clone = lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda").copy_(t)
        sets.append([other] + [clone(t.data) if t.numel() > 1 else t for t in first[1:]])
    for c in columns:
        x = torch.randn(c, k, device="cuda", dtype=torch.float16)
        yield Contestant("gemlite", form, c, nbytes,
                         [lambda a=a, x=x: forward_functional(x, None, a, meta) for a in sets], r, value, x)


# --- kerf ----------------------------------------------------------------------------------------

class Span(ctypes.Structure):
    _fields_ = [("p", ctypes.c_void_p), ("n", ctypes.c_size_t)]


class Shape(ctypes.Structure):
    _fields_ = [("format", ctypes.c_void_p), ("rows", ctypes.c_uint64), ("cols", ctypes.c_uint64),
                ("columns", ctypes.c_uint), ("x", ctypes.c_int), ("y", ctypes.c_int), ("parts", ctypes.c_uint),
                ("more_rows", ctypes.c_uint64 * 3), ("flags", ctypes.c_uint)]


class Part(ctypes.Structure):
    _fields_ = [("weights", Span * 4), ("y", Span), ("y_stride", ctypes.c_uint64), ("bias", Span), ("residual", Span)]


class Args(ctypes.Structure):
    _fields_ = [("weights", Span * 4), ("x", Span), ("y", Span), ("x_stride", ctypes.c_uint64),
                ("y_stride", ctypes.c_uint64), ("alpha", ctypes.c_float), ("bias", Span), ("residual", Span),
                ("workspace", Span), ("more", Part * 3)]


class Exec(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int), ("nan", ctypes.c_int), ("backend", ctypes.c_char_p),
                ("device", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("native", ctypes.c_int32), ("offset", ctypes.c_uint64),
                ("text", ctypes.c_char * 512)]


class Kerf:
    library = device = None

    @classmethod
    def open(cls, path):
        cls.library = lib = ctypes.CDLL(path)
        lib.kerf_format_find.restype = lib.kerf_gemv_backend.restype = ctypes.c_void_p
        lib.kerf_gemv_workspace.restype = ctypes.c_size_t
        cls.error, cls.device = Error(), ctypes.c_void_p()
        if lib.kerf_device_open(0, ctypes.byref(cls.device), ctypes.byref(cls.error)):
            raise RuntimeError(cls.error.text.decode())

    @classmethod
    def plan(cls, form, n, k, columns, flags):
        f16 = cls.library.kerf_dtype_find(b"F16")
        shape = Shape(cls.library.kerf_format_find(form.encode()), n, k, columns, f16, f16, 0, (0, 0, 0), flags)
        execution = Exec(0, 0, None, cls.device)
        plan = ctypes.c_void_p()
        if cls.library.kerf_gemv_plan_create(ctypes.byref(plan), ctypes.byref(shape), ctypes.byref(execution),
                                             ctypes.byref(cls.error)):
            raise RuntimeError(cls.error.text.decode())
        return plan

    @classmethod
    def run(cls, plan, planes, x, y, work):
        args = Args()
        for i, p in planes.items():
            args.weights[i] = Span(p.data_ptr(), p.numel() * p.element_size())
        args.x, args.y = Span(x.data_ptr(), x.numel() * 2), Span(y.data_ptr(), y.numel() * 2)
        args.workspace = Span(work.data_ptr(), work.numel())
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if cls.library.kerf_gemv_run(plan, ctypes.byref(args), stream, ctypes.byref(cls.error)):
            raise RuntimeError(cls.error.text.decode())
        return y


def kerf_planes(form, n, k):
    """Random planes and the values of the rows r: {plane: tensor}, function of r."""
    s = small(k)
    if form == "fp16":
        w = torch.randn(n, k, device="cuda", dtype=torch.float16) * s
        return {0: w}, lambda r: w[r].double()
    if form == "fp8-e4m3-row":
        w = (torch.randn(n, k, device="cuda") * 50).to(torch.float8_e4m3fn)
        f = (torch.rand(n, device="cuda") + 0.5) * s / 50
        return {0: w, 1: f}, lambda r: w[r].double() * f[r].double()[:, None]
    codes = random_bytes(n, k // 2)
    if form == "nvfp4":
        e4m3 = torch.randint(0x28, 0x48, (n, k // 16), dtype=torch.uint8, device="cuda").view(torch.float8_e4m3fn)
        second = torch.tensor([s / 4], device="cuda")
        return ({0: codes, 1: e4m3, 2: second},
                lambda r: table(E2M1)[nibbles(codes[r], False)] * spread(e4m3[r].double(), 16) * second.double())
    if form == "mxfp4":
        e8m0 = torch.randint(117, 122, (n, k // 32), dtype=torch.uint8, device="cuda")
        return ({0: codes, 1: e8m0},
                lambda r: table(E2M1)[nibbles(codes[r], False)] * spread(torch.exp2(e8m0[r].double() - 127), 32))
    if form == "int4-g128":
        bf = ((torch.rand(n, k // 128, device="cuda") + 0.5) * s / 4).bfloat16()
        return ({0: codes, 1: bf},
                lambda r: ((nibbles(codes[r], False) ^ 8) - 8).double() * spread(bf[r], 128))
    if form == "int4-g128-asym":
        bf = ((torch.rand(n, k // 128, device="cuda") + 0.5) * s / 4).bfloat16()
        zeros = random_bytes(n, k // 256)
        return ({0: codes, 1: bf, 3: zeros},
                lambda r: (nibbles(codes[r], False) - spread(nibbles(zeros[r], False), 128)).double() * spread(bf[r], 128))
    absmax = torch.rand(n, k // 64, device="cuda") * s * 2 + 1e-4
    return {0: codes, 1: absmax}, lambda r: table(NF4)[nibbles(codes[r], True)] * spread(absmax[r], 64)


def kerf(form, n, k, columns):
    if Kerf.library is None:
        return
    planes, value = kerf_planes(form, n, k)
    nbytes = sum(p.numel() * p.element_size() for p in planes.values())
    sets = [planes] + [kerf_planes(form, n, k)[0] for _ in range(copies_for(nbytes) - 1)]
    r = sample(n)
    exact = value(r)
    for c in columns:
        x = torch.randn(c, k, device="cuda", dtype=torch.float16)
        y = torch.empty(c, n, device="cuda", dtype=torch.float16)
        for chain in (False, True):
            plan = Kerf.plan(form, n, k, c, 1 if chain else 0)
            work = torch.empty(Kerf.library.kerf_gemv_workspace(plan) + 1, device="cuda", dtype=torch.uint8)
            yield Contestant("kerf", form, c, nbytes,
                             [lambda a=a, x=x, y=y, p=plan, w=work: Kerf.run(p, a, x, y, w) for a in sets],
                             r, exact, x, chain)


def make(peer, n, k, columns):
    if peer.startswith("gemlite-"):
        return gemlite(peer[8:], n, k, columns)
    if peer.startswith("kerf-"):
        return kerf(peer[5:], n, k, columns)
    return {"cublas": cublas, "scaled_mm": scaled_mm, "tinygemm": tinygemm,
            "bitsandbytes": bitsandbytes}[peer](n, k, columns)


# --- the race ------------------------------------------------------------------------------------

def prepare(c):
    """Error of one call, and the graph."""
    y = c.calls[0]()
    torch.cuda.synchronize()
    want = c.x.double() @ c.exact_rows.t()
    got = y.reshape(c.columns, -1)[:, c.rows].double()
    c.rms = (((got - want) ** 2).mean().sqrt() / (want ** 2).mean().sqrt()).item()
    n = max(len(c.calls), 100, min(400, int(1000 / (0.5 + c.bytes / 4.5e6))))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in c.calls[1:4]:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    c.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(c.graph):
        for i in range(n):
            c.calls[i % len(c.calls)]()
    c.n = n


def race(contestants, replays, deadline):
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in contestants]
    for i in range(3 + replays):
        if i >= 8 and time.monotonic() > deadline:
            break
        for c, (a, b) in zip(contestants, events):
            a.record()
            c.graph.replay()
            b.record()
        torch.cuda.synchronize()
        for c, (a, b) in zip(contestants, events):
            if i >= 3:
                c.times.append(a.elapsed_time(b) * 1000 / c.n)


def results(contestants, n, k):
    out = []
    for c in contestants:
        t = sorted(c.times)
        us = statistics.median(t)
        out.append({"by": c.by, "format": c.form, "rows": n, "cols": k, "columns": c.columns, "chain": c.chain,
                    "us": round(us, 3), "low": round(t[len(t) // 4], 3), "high": round(t[-1 - len(t) // 4], 3),
                    "bytes": c.bytes, "gbps": round(c.bytes / us * 1e-3), "rms": float(f"{c.rms:.2e}"),
                    "replays": len(t)})
    return out


def compile_ahead(peers, shapes, columns):
    """GemLite's kernels of all shapes, by as many processes as there are cores, into Triton's cache."""
    jobs = [f"{p}:{s}" for p in peers if p.startswith("gemlite") for s in shapes]
    if not jobs:
        return
    began, running, failed = time.monotonic(), [], []
    while jobs or running:
        while jobs and len(running) < max(2, os.cpu_count() or 2):
            job = jobs.pop(0)
            log = tempfile.TemporaryFile()
            command = [sys.executable, __file__, "--compile", job, "--columns", ",".join(map(str, columns))]
            running.append((job, log, subprocess.Popen(command, stdout=log, stderr=log)))
        time.sleep(0.2)
        for job, log, p in [r for r in running if r[2].poll() is not None]:
            running.remove((job, log, p))
            if p.returncode:
                log.seek(0)
                failed.append(f"{job}: {log.read().decode(errors='replace')[-300:]}")
    print(f"GemLite compiled in {time.monotonic() - began:.1f} s", *failed, sep="\n", flush=True)


def compile_one(job, columns):
    quick_tuning(True)
    kind, shape = job[len("gemlite-"):].split(":")
    n, k = map(int, shape.split("x"))
    for c in gemlite(kind, n, k, columns, few=True):
        c.calls[0]()
    torch.cuda.synchronize()


def bench_shape(n, k, options, deadline):
    contestants, began = [], time.monotonic()
    for peer in options.peers:
        try:
            for c in make(peer, n, k, options.columns):
                prepare(c)
                contestants.append(c)
        except Exception as e:  # a peer that is not there or refuses the shape must not stop the others
            torch.cuda.synchronize()
            print(f"{peer}, {n} x {k}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    ready = time.monotonic()
    race(contestants, options.replays, deadline)
    print(f"{n} x {k}: {len(contestants)} contestants, {ready - began:.1f} s to make, "
          f"{time.monotonic() - ready:.1f} s to measure", flush=True)
    out = results(contestants, n, k)
    for c in contestants:
        c.graph = None
        c.calls = []
    contestants.clear()
    torch.cuda.empty_cache()
    return out


def write(options, rows):
    head = {"schema": "kerf-bench-gemv-peers-1", "device": torch.cuda.get_device_name(0),
            "torch": torch.__version__, "rotated_bytes": ROTATED, "seconds": round(time.monotonic() - STARTED, 1)}
    if options.into:
        with open(options.into) as f:
            whole = json.load(f)
        whole["peers"] = dict(head, results=rows)
        text = json.dumps(whole)
    else:
        text = json.dumps(dict(head, results=rows))
    for mark in ("{\"by\"", "], \"decoder\"", "\"results\": [", "\"decoder\": [", "\"peers\""):
        text = text.replace(mark, "\n" + mark)
    with open(options.into or options.out, "w") as f:
        f.write(text + "\n")


def print_table(rows, shapes):
    names = sorted({(r["columns"], r["by"], r["format"], r["chain"]) for r in rows})
    print("\nus" + " " * 38 + "".join(f"{s:>14}" for s in shapes) + "    rms")
    for name in names:
        line, worst = "", 0.0
        for s in shapes:
            found = [r for r in rows if (r["columns"], r["by"], r["format"], r["chain"]) == name
                     and f"{r['rows']}x{r['cols']}" == s]
            line += f"{found[0]['us']:14.2f}" if found else " " * 14
            worst = max([worst] + [r["rms"] for r in found])
        print(f"{name[0]:3} {name[1]:13} {name[2]:16} {'chain' if name[3] else '     '}{line}    {worst:.1e}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", default=PEERS)
    p.add_argument("--shapes", default=SHAPES)
    p.add_argument("--columns", default="1,4,16")
    p.add_argument("--kerf", metavar="LIBRARY")
    p.add_argument("--replays", type=int, default=21)
    p.add_argument("--budget", type=float, default=1e9)
    p.add_argument("-o", "--out", default="gemv-peers.json")
    p.add_argument("--into", metavar="RESULT.json")
    p.add_argument("--compile", help=argparse.SUPPRESS)
    options = p.parse_args()
    options.columns = [int(c) for c in options.columns.split(",")]
    if options.compile:
        return compile_one(options.compile, options.columns)
    options.peers, options.shapes = options.peers.split(","), options.shapes.split(",")
    if options.kerf:
        Kerf.open(options.kerf)
    compile_ahead(options.peers, options.shapes, options.columns)
    if any(x.startswith("gemlite") for x in options.peers):
        try:
            quick_tuning(False)
        except ImportError as e:
            print(f"no GemLite: {e}")
            options.peers = [x for x in options.peers if not x.startswith("gemlite")]
    rows = []
    for i, s in enumerate(options.shapes):
        now = time.monotonic() - STARTED
        if now > options.budget * 0.95:
            print(f"out of time before {s}")
            break
        deadline = time.monotonic() + (options.budget - now) / (len(options.shapes) - i)
        rows += bench_shape(*map(int, s.split("x")), options, deadline)
        write(options, rows)
    print_table(rows, options.shapes)
    return 0


if __name__ == "__main__":
    import torch
    torch.manual_seed(1)
    sys.exit(main())

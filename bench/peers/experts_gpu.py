#!/usr/bin/env python3
"""experts_gpu.py - layers of experts as PyTorch computes them, in bf16, beside bench/gemv_experts_cuda.c.

    experts_gpu.py [OUT.json]

`loop` is a matrix product per expert whose tokens the host knows (without the synchronisation that finding
out takes), `grouped` is torch._grouped_mm over tokens sorted by expert on the device. Both replay a CUDA
graph of 16 layers with routes of their own; us for a layer, the median of 21 replays."""
import json
import statistics
import sys

import torch
import torch.nn.functional as F

MODELS = [("Qwen3-30B-A3B", 128, 2048, 768, 8), ("gpt-oss-120b", 128, 2880, 2880, 4),
          ("Mixtral-8x7B", 8, 4096, 14336, 2)]


def loop(x, gate_up, down, ids, host):
    y = torch.zeros_like(x)
    for e, rows in host:
        gate, up = F.linear(x.index_select(0, rows), gate_up[e]).chunk(2, dim=-1)
        y.index_add_(0, rows, F.linear(F.silu(gate) * up, down[e]) * 0.125)
    return y


def rows_by_expert(ids):
    table = ids.tolist()
    return [(e, torch.tensor([t for t, row in enumerate(table) if e in row], device="cuda"))
            for e in sorted({e for row in table for e in row})]


def grouped(x, gate_up, down, ids, host):
    k = ids.shape[1]
    flat = ids.reshape(-1)
    order = torch.argsort(flat)
    experts = torch.arange(gate_up.shape[0], device=x.device)
    ends = torch.searchsorted(flat[order], experts, right=True).to(torch.int32)
    sorted_x = x[order // k]
    gate, up = torch._grouped_mm(sorted_x, gate_up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    out = torch._grouped_mm(F.silu(gate) * up, down.transpose(1, 2), offs=ends) * 0.125
    return torch.zeros_like(x).index_add_(0, order // k, out)


def time_of(function, x, gate_up, down, sets):
    hosts = [rows_by_expert(s) for s in sets]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s, h in zip(sets[:2], hosts[:2]):
            function(x, gate_up, down, s, h)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for s, h in zip(sets, hosts):
                function(x, gate_up, down, s, h)
    times = []
    for i in range(24):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        if i >= 3:
            times.append(a.elapsed_time(b) * 1e3 / len(sets))
    return statistics.median(times)


def main():
    results = []
    for name, experts, hidden, inter, k in MODELS:
        gate_up = torch.randn(experts, 2 * inter, hidden, device="cuda", dtype=torch.bfloat16) * 0.02
        down = torch.randn(experts, hidden, inter, device="cuda", dtype=torch.bfloat16) * 0.02
        for tokens in (1, 8):
            x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
            sets = [torch.stack([torch.randperm(experts, device="cuda")[:k] for _ in range(tokens)]) for _ in range(16)]
            for by, function in (("torch loop", loop), ("torch grouped_mm", grouped)):
                try:
                    us = time_of(function, x, gate_up, down, sets)
                except Exception as e:  # a version without it, or that does not capture it
                    print(f"{name} {tokens} tokens {by}: {str(e).splitlines()[0][:120]}")
                    continue
                print(f"{name:14} bf16 {tokens:2} tokens {us:9.2f} us  {by}", flush=True)
                results.append({"by": by, "model": name, "format": "bf16", "tokens": tokens, "us": round(us, 3)})
        del gate_up, down
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as f:
            json.dump({"schema": "kerf-bench-experts-peers-1", "device": torch.cuda.get_device_name(),
                       "torch": torch.__version__, "results": results}, f, indent=1)


main()

"""From advice to a checkpoint that its reader loads: kerf advise, kerf quantize by the recipe alone, and then
the rules of vLLM's loaders; where transformers reads the layout without a GPU, the whole model as users
load it, layer by layer what kerf decodes.

    python3 tests/interop/advised.py KERF tests/data/tiny-llama [--light]

--light leaves PyTorch out. Exit code 1: a reader refused a folder or read other numbers.
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf_model
import loader_rules
import readers

CASES = [  # layout, runtime, budget, candidates (None: kerf's own)
    ("modelopt", "vllm", "5.9bits", None),  # a mixture
    ("modelopt", "trtllm", "9bits", None),
    ("compressed-tensors", "vllm", "5.2bits", None),  # a mixture
    ("compressed-tensors", "transformers", "5.5bits", None),  # a mixture
    # transformers rounds scales to the type of the model; `ct` chose them in that type
    ("compressed-tensors-naive", "transformers", "9bits", "fp8-e4m3-row:ct"),
    ("deepseek", "vllm", "9bits", None),
    ("bitsandbytes", "transformers", "5.2bits", None),
    ("gptq", "vllm", "5.2bits", None),
    ("gptq-v2", "vllm", "5.2bits", None),
    ("gpt-oss", "vllm", "9bits", None),  # stacked experts
    ("gguf", "llama.cpp", "5bits", None),  # a mixture
]
LOADED = {"compressed-tensors": "compressed_tensors", "compressed-tensors-naive": "compressed_tensors",
          "bitsandbytes": "bitsandbytes"}  # and the package that transformers does it with


def main():
    kerf, model, light = sys.argv[1], Path(sys.argv[2]), "--light" in sys.argv
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        scratch = Path(top)
        for number, (layout, runtime, budget, candidates) in enumerate(CASES):
            recipe, folder, wide, plain = (scratch / f"{number}-{x}" for x in ("recipe.json", "out", "fp32", "plain"))
            source = model
            if layout == "gpt-oss":
                source = readers.make_experts(scratch / "experts")
            elif layout == "gguf":
                source, folder, plain = (scratch / x for x in ("source.gguf", "out.gguf", "plain.gguf"))
                wide = scratch / "wide.safetensors"
                gguf_model.write_model(model, source)

            def run(*words):
                subprocess.run([kerf, *map(str, words), "--progress", "none"], check=True, capture_output=True)

            run("advise", source, "--layout", layout, "--runtime", runtime, "--hardware", "h200", "--budget", budget,
                "--cache", scratch / "scores.json", "-o", recipe, *(["-f", candidates] if candidates else []))
            end = "" if layout == "gguf" else "/"
            run("quantize", source, "--recipe", recipe, "-o", f"{folder}{end}")
            run("dequantize", folder, "--dtype", "fp32", "-o", f"{wide}{end}")
            run("dequantize", folder, "--dtype", "fp32" if layout == "gguf" else "bf16", "-o", f"{plain}{end}")
            if layout == "gguf":
                case = readers.Case(layout, "advised", "advised", folder, source, readers.raw_tensors(wide), plain)
                seen = readers.attempt(readers.read_with_gguf, case, model)
                failed += bool(seen.problem or seen.differ or not seen.weights)
                continue
            shapes = {n: x.shape for n, x in readers.raw_tensors(source / "model.safetensors").items() if x.ndim == 2}
            count, broken = loader_rules.check(layout, folder, shapes, readers.raw_tensors(folder / "model.safetensors"))
            problem = "; ".join(broken)[:300]
            print(f"{layout} for {runtime}, {budget}: {count} rules, {problem or 'all hold'}", flush=True)
            failed += bool(problem)
            if light or runtime != "transformers":
                continue
            if not importlib.util.find_spec(LOADED[layout]):
                print(f"{layout}: not loaded: no {LOADED[layout]} here")
                continue
            ours = readers.raw_tensors(wide / "model.safetensors")
            case = readers.Case(layout, "advised", "advised", folder, model, ours, plain)
            seen = readers.attempt(readers.read_with_transformers, case, readers.eval_tokens(model))
            failed += bool(seen.problem or seen.differ or not seen.weights)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""eval_rounding.py - what rounding of inputs and of the KV cache costs beside that of weights: tests/data/tiny-llama
quantized for runtimes, each output judged by kerf eval as it is run and by its weights alone.

    eval_rounding.py KERF [-o FILE.json]

Calibrated on rows 0 to 127 of eval.u16, of 64 tokens each, judged on rows 128 to 383."""
import argparse
import json
import os
import subprocess
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/tiny-llama")
TEXT = ["--tokens", MODEL + "/eval.u16", "--length", "64"]
INPUTS, CACHE = ["--input-scales"], ["--kv", "fp8-e4m3"]
CASES = [
    ("nvfp4:4/6", "modelopt", INPUTS),
    ("fp8-e4m3", "modelopt", INPUTS),
    ("fp8-e4m3-row", "compressed-tensors", []),
    ("fp8-e4m3-128x128", "deepseek", []),
    ("mxfp8-e4m3", "modelopt", []),
    ("int8", "compressed-tensors", []),
    ("nvfp4:4/6", "modelopt", CACHE),
    ("int4-g32:search", "compressed-tensors", CACHE),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kerf")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()

    def run(*words):
        return subprocess.run([args.kerf, *words], check=True, capture_output=True, text=True).stdout

    results = []
    with tempfile.TemporaryDirectory() as tmp:
        run("calibrate", MODEL, *TEXT, "--rows", "0:128", "--alpha-by", "none", "-o", tmp + "/cal")
        for i, (codec, layout, options) in enumerate(CASES):
            out = f"{tmp}/{i}"
            run("quantize", MODEL, "-f", codec, "--layout", layout, "--calibration", tmp + "/cal", *options, "-o", out)
            as_run, weights = (json.loads(run("eval", MODEL, out, *TEXT, "--rows", "128:384", "--json", *more))
                               for more in ([], ["--weights-only"]))
            a, w = as_run["candidates"][0], weights["candidates"][0]
            results.append({"codec": codec, "layout": layout, "inputs": a["inputs"], "cache": a["cache"],
                            "perplexity": [w["perplexity"], a["perplexity"]], "kl": [w["kl"], a["kl"]],
                            "flips": [w["flips"], a["flips"]]})
            print(f"| {codec} | {layout} | {', '.join(a['inputs']) or '-'} | {a['cache'] or '-'} | {w['kl']:.4f} | {a['kl']:.4f} | "
                  f"{w['perplexity']:.3f} | {a['perplexity']:.3f} |")
        document = {"schema": "kerf.bench.eval-rounding/1", "source": as_run["source"]["perplexity"],
                    "predictions": as_run["predictions"], "results": results}
    if args.output:
        with open(args.output, "w") as f:
            json.dump(document, f, indent=2)
            f.write("\n")


main()

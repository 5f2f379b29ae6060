"""forward_llama.py - perplexity of a GGUF file through llama.cpp and through kerf's forward pass, on the
same tokens.

    forward_llama.py PERPLEXITY MODEL.gguf TOKENS.u16 PERCENT

TOKENS: little-endian uint16, cut into rows of 256. Exit code 1: more than PERCENT apart. llama.cpp rounds
the inputs of products with quantized weights to 8 bits; with weights in F32 it should find the same.
"""
import json
import subprocess
import sys

import numpy as np

import gguf_real


def main():
    program, model, tokens, percent = sys.argv[1:5]
    context = 256
    rows = np.fromfile(tokens, "<u2")
    rows = rows[: len(rows) // context * context].reshape(-1, context).astype(int)
    theirs = gguf_real.perplexity(model, lambda vocab: rows.tolist())
    done = subprocess.run([program, model, tokens, "--context", str(context), "--json"], capture_output=True, text=True, check=True)
    ours = json.loads(done.stdout)["perplexity"]
    print(f"kerf {ours:.4f}, llama.cpp {theirs:.4f}: {100 * (ours / theirs - 1):+.3f} % on {rows.size} tokens")
    sys.exit(abs(ours / theirs - 1) > float(percent) / 100)


if __name__ == "__main__":
    main()

"""forward_llama.py - perplexity of a GGUF file through llama.cpp and through kerf's forward pass, on the
same tokens.

    forward_llama.py PERPLEXITY MODEL.gguf TOKENS.u16 [CONTEXT]

TOKENS: little-endian uint16, cut into rows of CONTEXT (256). Exit code 1: more than 0.2 % apart.
"""
import json
import subprocess
import sys

import numpy as np

import gguf_real


def main():
    program, model, tokens = sys.argv[1:4]
    context = int(sys.argv[4]) if len(sys.argv) > 4 else 256
    rows = np.fromfile(tokens, "<u2")
    rows = rows[: len(rows) // context * context].reshape(-1, context).astype(int)
    theirs = gguf_real.perplexity(model, lambda vocab: rows.tolist())
    done = subprocess.run([program, model, tokens, "--context", str(context), "--json"], capture_output=True, text=True, check=True)
    ours = json.loads(done.stdout)["perplexity"]
    print(f"kerf {ours:.4f}, llama.cpp {theirs:.4f}: {100 * (ours / theirs - 1):+.3f} % on {rows.size} tokens")
    sys.exit(abs(ours / theirs - 1) > 0.002)


if __name__ == "__main__":
    main()

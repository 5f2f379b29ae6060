"""conformance.py - writes conformance.md from the JSON that the comparisons leave behind.

    conformance.py FOLDER OUT
"""
import json
import pathlib
import sys

HEAD = """# Conformance

Which encoder of kerf writes the bytes of which function of which package. Every row is a comparison that was run, by
`bash tests/golden/peers/run_peers.sh`: bfloat16, fp16 and fp32 tensors over all 128 mantissas of the largest magnitude, with
rows of ties, zeros, -0, outliers, subnormals and one sign, and matrices at the ends of the type's range; fresh random
numbers in each run. *exact* means every byte of every plane. *exact except* names each difference and counts the groups
(blocks, rows or matrices) that show it; a difference without a name fails the run. Rows marked *transcribed* have no
package: the published formula was written down a second time and compared, the project's own code was not run.

The scale of a matrix is compared as kerf stores it, a multiplier: 1 / weight_global_scale of compressed-tensors,
amax / (6 * 448) of TransformerEngine, amax / (6 * 256) of fouroversix' 4/6, SCB / 127 of LLM.int8.
modelopt's int4, gptq and hqq hold fp32 scales while they round; these are compared after one rounding to the stored type.

"""

TAIL = """
## Where a package differs from what is written about it

- compressed-tensors' `2688 / amax` is PyTorch's reciprocal, then a product: in bfloat16 that is two roundings,
  src(2688 * src(1 / amax)), and 35 of 128 mantissas get another tensor scale than one division gives. The same holds for
  `127.0 / row_stats` of LLM.int8 and `15 / range` of HQQ: a Python number divided by a tensor is never one division.
- compressed-tensors' asymmetric zero point of a range that underflows is the largest code if the range has a negative
  number (Inf, clamped), and 0 for a range of zeros (NaN, converted).
- compressed-tensors 0.20 rounds mxfp6's exponent at four mantissa bits; mxfp4's and mxfp8's at two.
- torchao 0.18's eager RCEIL is ceil(log2(a / max)) with a logarithm in fp32, so numbers up to 22 ulps above a power of two
  count as it; where the byte is 0 it scales by 1, not by 2^127. Model-Optimizer's logarithms are the same.
- torchao's NVFP4 does emit scales down to 2^-6 only, but writes NaN codes where 1 / second overflows.
- PyTorch 2.15 saturates conversions to float8_e4m3fn; Model-Optimizer's unclamped casts depend on that.
- TransformerEngine's Python reference writes code 0 for -0; its kernels, as the hardware, write 8.
- fouroversix' PyTorch reference lets codes overflow where an element exceeds 7 after its block scale rounded down.
- gguf-py 0.19 writes scale +0 for a block of zeros in Q4_0 that begins with -0; ggml writes -0 for every block of zeros.

## What is not here

- FlashInfer, TensorRT-LLM and vLLM kernels need a GPU; their default paths use approximate reciprocals.
- bitsandbytes on CUDA uses an approximate reciprocal: it differs next to thresholds and writes codes 0 for zero blocks.
- HQQ's proximal search finds real zero points by pow() and means in no stated order: no format here holds them.
- torchao's Int4Tensor needs the mslk package and a GPU; its tinygemm layout has zero points in floating point.
- Model-Optimizer's `INT4QTensor` (7 / amax as a multiplier) is not its export path and is not reproduced.
"""


def main(folder, out):
    rows = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        rows += json.loads(path.read_text(encoding="utf-8"))
    rows.sort(key=lambda r: (r["codec"], r["peer"], r["function"]))
    text = HEAD + "| encoder | peer | function | result | elements |\n|---|---|---|---|---|\n"
    for r in rows:
        result = r["result"].replace("|", "\\|")
        text += (f"| `{r['codec']}` | {r['peer']} | `{r['function']}` | {result} | "
                 f"{r['elements'] / 1e6:.1f} M {'/'.join(r['types'])} |\n")
    pathlib.Path(out).write_text(text + TAIL, encoding="utf-8")
    print(f"{out}: {len(rows)} rows, {sum(r['elements'] for r in rows) / 1e9:.2f} G elements")
    return any(r["result"].startswith("DIFFERS") for r in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

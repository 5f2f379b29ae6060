"""The checkpoints that vllm_real.py and sglang_real.py are given, and what is asked of each: the numbers that a
runtime loads must be kerf's, and the GPUs on which it has something for them those that kerf says."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import readers

GPUS = {75: "t4", 80: "a100", 86: "a10", 89: "rtx4090", 90: "h100", 100: "b200", 120: "rtx5090", 121: "gb10"}
CASES = [
    ("compressed-tensors", "nvfp4"),
    ("compressed-tensors", "nvfp4+inputs"),
    ("compressed-tensors", "mxfp4"),
    ("compressed-tensors", "mxfp8-e4m3"),
    ("compressed-tensors", "fp8-e4m3:ct"),
    ("compressed-tensors", "fp8-e4m3-row:ct"),
    ("compressed-tensors", "fp8-e4m3-128x128:ct"),
    ("compressed-tensors", "int8:ct"),
    ("compressed-tensors", "int8-g128"),
    ("compressed-tensors", "int8-g128-asym"),
    ("compressed-tensors", "int4-g32"),
    ("compressed-tensors", "int4-g128"),
    ("compressed-tensors", "int4-row"),
    ("compressed-tensors", "int4-g32-asym"),
    ("compressed-tensors", "int4-g128-asym"),
    ("compressed-tensors-naive", "fp8-e4m3-row:ct"),
    ("modelopt", "nvfp4"),
    ("modelopt", "nvfp4+inputs"),
    ("modelopt", "fp8-e4m3+inputs"),
    ("modelopt", "fp8-e4m3-row"),
    ("modelopt", "fp8-e4m3-128x128"),
    ("modelopt", "mxfp8-e4m3"),
    ("deepseek", "fp8-e4m3-128x128"),
    ("gptq", "int4-g128-f16:gptq"),
    ("gptq", "int8-g128"),
    ("gptq-v2", "int4-g128-f16:gptq"),
    ("bitsandbytes", "nf4"),
]
# What a runtime takes and kerf does not offer, from some capability on, and why.
HELD_BACK = {
    ("vllm", "compressed-tensors", "mxfp4"): (100, "activations of 4 bits too"),
    ("vllm", "compressed-tensors", "int8"): (100, "the kernel it takes refuses when it is launched"),
    ("sglang", "compressed-tensors", "int8"): (100, "its documentation says that there is no kernel"),
    ("sglang", "modelopt", "mxfp8-e4m3"): (0, "its Llama loses the scales"),
    ("sglang", "deepseek", "fp8-e4m3-128x128"): (0, "its Llama loses the scales"),
}
MIXTURES = [("compressed-tensors", "5.2bits"), ("modelopt", "6bits")]  # layout, budget


def claims(kerf, model, runtime, case, gpu):
    """Whether kerf advise offers this format for the runtime on a GPU."""
    codec = case.codec.split("+")[0].split(":")[0]
    words = ["advise", model, "--only", "*layers.0.self_attn.o_proj*", "--budget", "99bits", "-f", codec,
             "--runtime", runtime, "--layout", case.layout, "--hardware", gpu, "--progress", "none"]
    return subprocess.run([kerf, *map(str, words)], capture_output=True).returncode == 0


def mixture(kerf, model, runtime, scratch, layout, budget):
    """A checkpoint of several formats, as kerf advise has it for the runtime; None: it mixes none."""
    stem = f"{layout}-mixed"
    recipe, folder, wide = (scratch / f"{stem}{x}" for x in (".json", "", "-fp32"))

    def run(*words):
        subprocess.run([kerf, *map(str, words), "--progress", "none"], check=True, capture_output=True)

    run("advise", model, "--layout", layout, "--runtime", runtime, "--hardware", "b200", "--budget", budget,
        "-o", recipe)
    run("quantize", model, "--recipe", recipe, "-o", f"{folder}/")
    run("dequantize", folder, "--dtype", "fp32", "-o", f"{wide}/")
    formats = sorted({rule["codec"] for rule in json.loads(recipe.read_text())["rules"]} - {"keep"})
    return readers.Case(layout, "mixed", f"mixed by kerf advise: {', '.join(formats)}", folder, model,
                        readers.raw_tensors(wide / "model.safetensors"), None)


def said(e):
    """What an exception says, in a line."""
    text = e.errors()[0]["msg"] if hasattr(e, "errors") else " ".join(map(str, e.args))
    return " ".join(text.removeprefix("Value error, ").split())


def ranges(answers):
    """[(sm, text)] -> "75..89 text; 90 text"."""
    out = []
    for sm, text in answers:
        if out and out[-1][2] == text:
            out[-1][1] = sm
        else:
            out.append([sm, sm, text])
    return "; ".join(f"{a if a == b else f'{a}..{b}'}: {text}" for a, b, text in out)


def all_cases(a, runtime):
    for layout, fmt in CASES:
        if (runtime, layout) == ("sglang", "bitsandbytes") and not importlib.util.find_spec("bitsandbytes"):
            continue
        if a.only in (None, layout):
            yield readers.make_case(a.kerf, a.model, a.scratch, layout, fmt)
    for layout, budget in MIXTURES if runtime == "vllm" else []:  # SGLang mixes none
        if a.only in (None, layout, "mixed"):
            yield mixture(a.kerf, a.model, runtime, a.scratch, layout, budget)


def run(runtime, version, on_gpu, load):
    """Prints a line for each case and writes a table; 1: something is other than kerf says."""
    a = readers.command_line().parse_args()
    rows, failed, count = [], 0, 0
    for case in all_cases(a, runtime):
        answers, wrong, taken = [], [], []
        since, why = HELD_BACK.get((runtime, case.layout, case.format), (sys.maxsize, ""))
        lost = since == 0  # what it makes of the weights is not what kerf wrote
        for sm, gpu in GPUS.items():
            takes, text = on_gpu(case.folder, sm)
            taken += [sm] if takes else []
            answers.append((sm, text if takes else f"no ({text[:120]})"))
            asked = case.format != "mixed" and "+inputs" not in case.codec  # kerf advises for weights alone
            if takes and sm >= since:
                answers[-1] = (sm, f"{text} (not offered: {why})")
            if asked and claims(a.kerf, a.model, runtime, case, gpu) != (takes and sm < since):
                wrong.append(f"sm_{sm}: kerf advise says otherwise")
        if taken:
            try:
                weights, differ = load(case, 90 if 90 in taken else taken[-1])
            except Exception as e:
                weights = differ = 0
                wrong.append(f"not loaded: {type(e).__name__}: {e}".replace("\n", " ")[:300])
            loaded = f"{weights - differ}/{weights}"
            if differ and not lost:
                wrong.append(f"{differ} weights differ")
        else:
            loaded = "-"
        count += 1
        failed += bool(wrong)
        fault = f"; WRONG: {'; '.join(wrong)}" if wrong else ""
        print(f"{case.layout} {case.codec}: {loaded} equal; {ranges(answers)}{fault}", flush=True)
        rows.append(f"| {case.layout} | {case.codec} | {loaded} | {ranges(answers)} |")
    if a.write:
        write(Path(a.write), version, rows)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


def write(path, version, rows):
    """Replaces the table between the marks of this version's program."""
    name = version.split()[0]
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    text = path.read_text()
    head, tail = text.split(begin)[0], text.split(end)[1]
    table = [f"{version}, Python {sys.version.split()[0]}, no GPU.", "",
             "| layout | format | weights equal | GPUs: what it takes, or what it says |", "|---|---|---|---|", *rows]
    path.write_text(head + begin + "\n" + "\n".join(table) + "\n" + end + tail)

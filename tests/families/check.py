#!/usr/bin/env python3
"""check.py KERF [--update] [--every N] [FAMILY...]: every family of published.py through the command. Roles must be
what published.py says; quantized in four layouts every matrix that is worth it must be there, or be kept
for a reason that the layout has; what advise chooses must be executed as promised. The table in
codecs/families.md is what this prints: with --update it is written, else compared. --every N: each N-th
family alone, for a build in which all take too long."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import gguf_names
import make

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = f"{HERE}/../../codecs/families.md"
QUANTIZED = {"attention", "MLP", "expert", "shared expert", "state space"}


class Failure(Exception):
    pass


def run(kerf, *args, code=0):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    r = subprocess.run([kerf, *args], capture_output=True, text=True, env=env)
    if r.returncode != code:
        raise Failure(f"kerf {' '.join(args)}: {r.returncode}: {r.stderr.strip()}")
    return r


def wanted(path):
    with open(path) as f:
        return [line.rstrip("\n").split("\t") for line in f]


def is_worth_it(role, piece, shape):
    return role in QUANTIZED and piece != "parameter" and len(shape) > 1


def check_roles(kerf, folder):
    found = {w["name"]: w for w in json.loads(run(kerf, "inspect", folder, "--json").stdout)["weights"]}
    for name, role, piece, orientation in wanted(folder + ".roles"):
        w = found[name]
        have = [w["role"], w["piece"] or "null", w["orientation"]]
        if have != [role, piece, orientation]:
            raise Failure(f"{name} is {have}, not {[role, piece, orientation]}")
    return {n: w for n, w in found.items() if is_worth_it(w["role"], w["piece"], w["shape"])}


def check_layout(kerf, folder, layout, matrices):
    """Quantizes and verifies; returns "all", or how many are kept."""
    out = f"{folder}-{layout}"
    dry = json.loads(run(kerf, "quantize", folder, "-f", "nvfp4", "--layout", layout, "-n", "--json").stdout)
    if dry["totals"]["quantized"] == 0:
        return "none: " + next(t["reason"] for t in dry["tensors"] if t["name"] in matrices)
    plan = json.loads(run(kerf, "quantize", folder, "-f", "nvfp4", "--layout", layout, "-o", out, "--json").stdout)
    quantized = {t["name"] for t in plan["tensors"] if t["format"]}
    kept = {t["name"]: t["reason"] for t in plan["tensors"] if not t["format"]}
    unfit = sum((reason or "").startswith("layout ") for reason in kept.values())
    said = [n for n in plan["notes"] if n.startswith(f"{unfit} tensor") and f"which layout {layout} cannot hold" in n]
    if plan["notes"] != said or len(said) != bool(unfit):
        raise Failure(f"{layout}: {unfit} do not fit: {plan['notes']}")
    for name in matrices:
        reason = kept.get(name)
        if reason and not reason.startswith("layout "):
            raise Failure(f"{layout}: {name} is kept: {reason}")
    for t in plan["tensors"]:
        if t["name"] in quantized and not is_worth_it(t["role"], t["piece"], t["shape"]):
            raise Failure(f"{layout}: {t['name']} is quantized")
    run(kerf, "verify", folder, out)
    run(kerf, "inspect", out)
    n = sum(name in kept for name in matrices)
    return "all" if n == 0 else f"{len(matrices) - n} of {len(matrices)}"


def check_gguf(kerf, folder):
    path = f"{folder}.gguf"
    names = gguf_names.write(path, os.path.basename(folder), wanted(folder + ".roles"))
    plan = json.loads(run(kerf, "quantize", path, "-f", "ggml-q8_0", "-o", f"{folder}-q8_0.gguf", "--json").stdout)
    for t in plan["tensors"]:
        if bool(t["format"]) != names[t["name"]]:
            raise Failure(f"gguf: {t['name']} becomes {t['format']} ({t['reason']})")
    run(kerf, "verify", path, f"{folder}-q8_0.gguf")
    return "all, and from the folder" if is_written_from_folder(kerf, folder) else "all"


def is_written_from_folder(kerf, folder):
    """With the tokens that such a file needs, and as many experts as there are. False: the family is none of
    those whose keys and names kerf knows, and says so."""
    full, out = f"{folder}-hf", f"{folder}-hf.gguf"
    shutil.copytree(folder, full)
    with open(f"{full}/config.json") as f:
        config = {**json.load(f), "max_position_embeddings": 64}
    if "num_experts" in config:
        config["num_experts"] = 2
    with open(f"{full}/config.json", "w") as f:
        json.dump(config, f)
    letters = {chr(33 + i): i for i in range(94)}
    with open(f"{full}/tokenizer.json", "w") as f:
        json.dump({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": letters, "merges": []}}, f)
    r = subprocess.run([kerf, "quantize", full, "-f", "ggml-q8_0", "-o", out], capture_output=True, text=True)
    if r.returncode == 3 and "which kerf knows for model_type" in r.stderr:
        return False
    if r.returncode:
        raise Failure(f"{full} to GGUF: {r.returncode}: {r.stderr.strip()}")
    run(kerf, "verify", full, out)
    return True


def check_advice(kerf, folder, in_ct):
    """Advice for no layout, executed in layout kerf, and in compressed-tensors where that has all; advice
    for compressed-tensors."""
    recipe, fitting = f"{folder}.recipe.json", f"{folder}.fitting.json"
    advise = ["advise", folder, "--budget", "6bits", "-f", "nvfp4,mxfp4,int8", "-o"]
    run(kerf, *advise, recipe)
    run(kerf, "quantize", folder, "--recipe", recipe, "-o", f"{folder}-advised")
    if in_ct == "all":
        run(kerf, "quantize", folder, "--recipe", recipe, "--layout", "compressed-tensors", "-o", f"{folder}-advised-ct")
    if in_ct.startswith("none"):
        return "kerf"
    run(kerf, *advise[:3], "14bits", *advise[4:], fitting, "--layout", "compressed-tensors")
    run(kerf, "quantize", folder, "--recipe", fitting, "-o", f"{folder}-fitting")
    return "kerf, compressed-tensors"


def check(kerf, root, name):
    folder = f"{root}/{name}"
    try:
        matrices = check_roles(kerf, folder)
        with open(folder + ".roles") as f:
            count = len(f.readlines())
        layouts = [check_layout(kerf, folder, layout, matrices) for layout in ("kerf", "compressed-tensors", "modelopt")]
        row = [f"`{name}`", f"{count}", *layouts, check_gguf(kerf, folder), check_advice(kerf, folder, layouts[1])]
        return "| " + " | ".join(row) + " |", None
    except Failure as e:
        return None, f"{name}: {e}"


def table(rows):
    return "\n".join(["| family | tensors | kerf | compressed-tensors | modelopt | gguf | advised, executed |",
                      "|---|---:|---|---|---|---|---|", *rows]) + "\n"


def main():
    kerf, *rest = sys.argv[1:]
    every = int(rest.pop(rest.index("--every") + 1)) if "--every" in rest else 1
    names = [a for a in rest if not a.startswith("--")] or list(make.FAMILIES)[::every]
    with tempfile.TemporaryDirectory() as root:
        make.all(root, names)
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda n: check(kerf, root, n), names))
    faults = [fault for _, fault in results if fault]
    print("\n".join(faults), file=sys.stderr)
    text = table([row for row, _ in results if row])
    if faults or len(names) < len(make.FAMILIES):
        print(text)
        return bool(faults)
    with open(PAGE) as f:
        page = f.read()
    begin, end = "<!-- families:begin -->\n", "<!-- families:end -->"
    fresh = page[:page.index(begin) + len(begin)] + text + page[page.index(end):]
    if "--update" in rest:
        with open(PAGE, "w") as f:
            f.write(fresh)
    elif fresh != page:
        print("codecs/families.md is behind: python3 tests/families/check.py KERF --update", file=sys.stderr)
        return 1
    print(f"{len(names)} families")
    return 0


if __name__ == "__main__":
    sys.exit(main())

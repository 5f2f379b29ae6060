#!/usr/bin/env python3
"""feedback_gpus.py - kerf quantize --feedback of a whole model by one GPU and by several: seconds of
the command and of its phases, and whether the files are the same.

  feedback_gpus.py KERF FOLDER OUT.json [-d 0,1] [-c CODEC]... [-n REPEATS]

FOLDER/model is a model (forward_cuda of a build with CUDA makes one of Llama-3.1-8B's shape, random),
FOLDER/cal its calibration with Gram matrices; where it is missing it is made of 4 rows of 2,048
tokens that are 0, 1, 2 ... times a large number. The first of the GPUs is the one that all of them are
compared with; they take turns, all first. Nothing is read beforehand: what a run reads was just
written, or read by the run before it. "writing" is the phase in which Gram matrices are read,
factored, and weights rounded and written; "opening" is all ahead of it, contexts of CUDA among it.
FOLDER/DEVICES.events has when each tensor was begun.
"""
import argparse
import array
import json
import os
import shutil
import subprocess
import sys
import time


def make_calibration(kerf, folder, devices):
    tokens = os.path.join(folder, "few.u32")
    with open(tokens, "wb") as f:
        array.array("I", [i * 2654435761 % 2**32 % 128256 for i in range(4 * 2048)]).tofile(f)
    subprocess.run([kerf, "calibrate", os.path.join(folder, "model"), "--tokens", tokens, "--length",
                    "2048", "--gram", "--alpha-by", "none", "-o", os.path.join(folder, "cal"),
                    "--device", "cuda:" + devices, "--progress", "none"], check=True)


def quantize(kerf, folder, codec, devices):
    """Seconds of one command, from its start to its end, and of its phases."""
    out = os.path.join(folder, "out-" + devices)
    shutil.rmtree(out, ignore_errors=True)
    command = [kerf, "quantize", os.path.join(folder, "model"), "-f", codec, "--calibration",
               os.path.join(folder, "cal"), "--feedback", "-o", out, "--device", "cuda:" + devices,
               "--progress", "json"]
    start = time.monotonic()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    at, said = [("opening", start)], []
    with open(os.path.join(folder, devices + ".events"), "w") as events:
        for line in run.stderr:
            now = time.monotonic()
            try:
                event = json.loads(line)
            except ValueError:
                said.append(line)
                continue
            if event.get("event") == "phase":
                at.append((event["name"], now))
            if event.get("event") == "tensor":
                print("%.3f %s" % (now - start, event["name"]), file=events)
    if run.wait() != 0:
        sys.exit("feedback_gpus.py: %s: %s" % (" ".join(command), "".join(said)))
    at.append(("end", time.monotonic()))
    row = {"codec": codec, "gpus": devices, "all_s": round(at[-1][1] - start, 2)}
    for (name, begun), (_, ended) in zip(at, at[1:]):
        row[name + "_s"] = round(row.get(name + "_s", 0) + ended - begun, 2)
    return row


def same_files(folder, one, devices):
    return subprocess.run(["diff", "-rq", os.path.join(folder, "out-" + one),
                           os.path.join(folder, "out-" + devices)], stdout=sys.stderr).returncode == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kerf")
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("-d", dest="devices", default="0,1")
    parser.add_argument("-c", dest="codecs", action="append")
    parser.add_argument("-n", dest="repeats", type=int, default=2)
    a = parser.parse_args()
    one = a.devices.split(",")[0]
    if not os.path.exists(os.path.join(a.folder, "cal")):
        make_calibration(a.kerf, a.folder, a.devices)
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                            stdout=subprocess.PIPE, text=True).stdout.splitlines()
    with open(os.path.join(a.folder, "model", "config.json")) as f:
        layers = json.load(f)["num_hidden_layers"]
    results = []

    def write():
        with open(a.out, "w") as f:
            f.write('{\n  "schema": "kerf-bench-feedback-gpus/1",\n')
            f.write('  "device": %s, "cores": %d, "layers": %d,\n' % (
                json.dumps("%d x %s" % (len(a.devices.split(",")), device[0] if device else "?")),
                os.cpu_count(), layers))
            f.write('  "command": %s,\n  "results": [\n    ' % json.dumps(" ".join(
                ["bench/feedback_gpus.py KERF FOLDER OUT.json"] + sys.argv[4:])))
            f.write(",\n    ".join(json.dumps(r) for r in results) + "\n  ]\n}\n")

    for codec in a.codecs or ["nvfp4:4/6"]:
        for _ in range(a.repeats):
            for devices in (a.devices, one):
                results.append(quantize(a.kerf, a.folder, codec, devices))
                print(json.dumps(results[-1]), flush=True)
                write()
        same = same_files(a.folder, one, a.devices)
        best = {d: min((r for r in results if r.get("gpus") == d and r["codec"] == codec),
                       key=lambda r: r["writing_s"]) for d in (one, a.devices)}
        results.append({"codec": codec, "same_files": same,
                        "times": {k: round(best[one][k] / best[a.devices][k], 2)
                                  for k in ("writing_s", "all_s")}})
        print(json.dumps(results[-1]), flush=True)
        write()
        if not same:
            sys.exit(1)


if __name__ == "__main__":
    main()

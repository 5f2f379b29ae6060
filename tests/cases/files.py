"""Small checkpoints made with the standard library alone, and the command run on them."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

WIDTH = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1, "U8": 1}


class Failure(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Failure(text)


def count(shape):
    return math.prod(shape)


def numbers(n, seed=1, deviation=0.02):
    rng = random.Random(seed)
    return [rng.gauss(0, deviation) for _ in range(n)]


def bf16(x):
    """The nearest."""
    u = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000))[0]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def e4m3(byte):
    sign = -1 if byte & 0x80 else 1
    exponent, fraction = byte >> 3 & 15, byte & 7
    if byte & 0x7F == 0x7F:
        return math.nan
    return sign * (fraction / 8 * 2.0 ** -6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


def pack(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", bf16(x))[2:] for x in values)
    if dtype == "F8_E8M0":
        return bytes(int(math.log2(x)) + 127 for x in values)
    if dtype in ("U8", "I8", "F8_E4M3"):
        return bytes(values)
    return struct.pack(f"<{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e', 'I64': 'q', 'I32': 'i', 'U32': 'I', 'I16': 'h'}[dtype] }", *values)


def write(path, tensors, metadata=None):
    """tensors: (name, dtype, shape[, values]); without values normal numbers, or zeros."""
    head, data, at = {}, [], 0
    if metadata:
        head["__metadata__"] = metadata
    for name, dtype, shape, *values in tensors:
        n = count(shape)
        plain = numbers(n, len(name)) if dtype[0] in "FB" and WIDTH[dtype] > 1 else [0x38] * n
        blob = pack(dtype, values[0] if values else plain)
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        data.append(blob)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_gguf(path, tensors, architecture="llama", version=3):
    """tensors: (name, dimensions as GGUF has them, number of its ggml type, bytes)."""
    def text(t):
        return struct.pack("<Q", len(t.encode())) + t.encode()

    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), 1) + text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    data = b""
    for name, dims, kind, raw in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)
    return path


def model(folder, tensors, **config):
    write(f"{folder}/model.safetensors", tensors)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(config, f)
    return folder


def read(path):
    """name -> (dtype, shape, bytes)"""
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}


class Kerf:
    def __init__(self, path):
        self.path = path

    def __call__(self, *args, code=0, says=None, env=None):
        r = subprocess.run([self.path, *args], capture_output=True, text=True, errors="replace",
                           env={**os.environ, **(env or {})})
        line = f"kerf {' '.join(args)}"
        need(r.returncode == code, f"{line}: exit code {r.returncode}, not {code}: {(r.stderr or r.stdout).strip()[-300:]}")
        need(not says or says in r.stdout + r.stderr, f"{line}: does not say '{says}': {(r.stderr + r.stdout).strip()[-400:]}")
        return r.stdout

    def json(self, *args, **how):
        return json.loads(self(*args, "--json", **how))

    def decisions(self, folder, *args):
        """name -> format, or None, and its reason"""
        plan = self.json("quantize", folder, "-n", *(args or ("-f", "nvfp4")))
        return {t["name"]: (t["format"], t["reason"]) for t in plan["tensors"]}

    def t2(self, source, codec):
        return {t["name"]: t["t2"] for t in self.json("score", source, "-f", codec, "--zstd-level", "0")["tensors"]}


def run_cases(names):
    """The functions called case_*, or those that the command line names, each in a folder of its own."""
    kerf, *wanted = sys.argv[1:]
    cases = {n[5:]: f for n, f in names.items() if n.startswith("case_") and (not wanted or n[5:] in wanted)}
    faults = 0
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as tmp:
            try:
                case(Kerf(os.path.abspath(kerf)), tmp)
            except Exception as e:  # noqa: BLE001 - one fault must not hide the others
                print(f"FAIL: {name}: {type(e).__name__}: {e}")
                faults += 1
    print(f"{len(cases)} cases, {faults} failed")
    return bool(faults) or not cases

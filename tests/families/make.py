"""make.py OUT [FAMILY...]: a folder for each family of published.py, and OUT/FAMILY.roles with a line for
each tensor: name, role, piece, orientation. Only the standard library; the same bytes everywhere."""
import json
import os
import random
import struct
import sys

import published_more  # noqa: F401 - adds to FAMILIES
import published_late  # noqa: F401 isort: skip
from published import FAMILIES, SIZES


def dimension(text):
    n = 1
    for factor in text.split("*"):
        n *= SIZES[factor] if factor in SIZES else int(factor)
    return n


def bf16(random_, count):
    """Normal numbers, cut to BF16."""
    return b"".join(struct.pack("<f", random_.gauss(0, 0.02))[2:] for _ in range(count))


def write(path, tensors, pool):
    head, at, blobs = {}, 0, []
    for name, shape in tensors:
        n = 2
        for d in shape:
            n *= d
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        start = (len(name) * 7919 + at) % 4096 // 2 * 2
        blobs.append((pool * (n // len(pool) + 2))[start:start + n])
        at += n
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make(folder, name, pool):
    config, lines = FAMILIES[name]
    tensors, roles = [], []
    for line in lines:
        tensor, shape, what, *turned = line.split()
        role, _, piece = what.partition(".")
        tensors.append((tensor, [dimension(d) for d in shape.split(",")]))
        is_conv1d = name in ("gpt2", "openai-gpt") and role in ("attention", "MLP") and len(tensors[-1][1]) == 2
        roles.append("\t".join([tensor, role.replace("_", " "), piece or "null", "in,out" if turned or is_conv1d else "out,in"]))
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    write(f"{folder}/{name}/model.safetensors", tensors, pool)
    with open(f"{folder}/{name}/config.json", "w") as f:
        json.dump({k: v for k, v in config.items() if v is not None}, f, indent=1)
    with open(f"{folder}/{name}.roles", "w") as f:
        f.write("\n".join(roles) + "\n")


def all(folder, names):
    pool = bf16(random.Random(1), 40009)
    for name in names:
        make(folder, name, pool)


if __name__ == "__main__":
    all(sys.argv[1], sys.argv[2:] or FAMILIES)

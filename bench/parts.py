#!/usr/bin/env python3
"""parts.py - one model written by 1, 2, 3 and 8 parts and by one process: the same bytes, and what that costs
in seconds of processor, of all parts and the merge together.

    parts.py KERF FOLDER [-f FORMAT[:ENCODER],...] [--layout NAME,...] [--gib N] >results.json

Makes a model of Llama's names in 16 shards of N GiB (4) in FOLDER, cut by bytes, so that some of the groups
that loaders fuse (q, k and v; gate and up) lie in two files, and removes it. Parts run one after the other on
one thread, so that the sum of their seconds does not depend on how many processors there are; the run of one
process stands before and after them, for other work on the machine makes both slower."""
import argparse
import filecmp
import json
import os
import platform
import shutil
import struct
import subprocess
import sys

import numpy

HIDDEN, INNER, HEADS, VOCABULARY, SHARDS = 2048, 8192, 512, 32000, 16


def shapes(layers):
    yield 'model.embed_tokens.weight', (VOCABULARY, HIDDEN)
    for i in range(layers):
        p = 'model.layers.%d.' % i
        for name, rows, columns in (('q', HIDDEN, HIDDEN), ('k', HEADS, HIDDEN), ('v', HEADS, HIDDEN),
                                    ('o', HIDDEN, HIDDEN)):
            yield p + 'self_attn.%s_proj.weight' % name, (rows, columns)
        for name, rows, columns in ('gate', INNER, HIDDEN), ('up', INNER, HIDDEN), ('down', HIDDEN, INNER):
            yield p + 'mlp.%s_proj.weight' % name, (rows, columns)
        yield p + 'input_layernorm.weight', (HIDDEN,)
    yield 'lm_head.weight', (VOCABULARY, HIDDEN)


def numbers(shape, rng):
    """bfloat16 of another size in each tensor, so that layers of a group have other largest values."""
    x = rng.standard_normal(shape, dtype=numpy.float32) * numpy.float32(rng.uniform(0.01, 0.1))
    return (x.view(numpy.uint32) >> 16).astype('<u2')


def make_model(folder, gib):
    rng = numpy.random.default_rng(1)
    layer = 2 * sum(int(numpy.prod(s)) for n, s in shapes(1) if '.layers.' in n)
    layers = int((gib * 2**30 - 4 * VOCABULARY * HIDDEN) / layer + 0.999)
    all_of_them = list(shapes(layers))
    total = 2 * sum(int(numpy.prod(s)) for _, s in all_of_them)
    files, used = [[] for _ in range(SHARDS)], 0
    for name, shape in all_of_them:
        files[min(SHARDS - 1, used * SHARDS // total)].append((name, shape))
        used += 2 * int(numpy.prod(shape))
    where = {}
    os.makedirs(folder)
    for i, tensors in enumerate(files):
        file = 'model-%05d-of-%05d.safetensors' % (i + 1, SHARDS)
        head, at = {'__metadata__': {'format': 'pt'}}, 0
        for name, shape in tensors:
            n = 2 * int(numpy.prod(shape))
            head[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + n]}
            where[name] = file
            at += n
        text = json.dumps(head).encode()
        text += b' ' * (-len(text) % 8)
        with open(os.path.join(folder, file), 'wb') as f:
            f.write(struct.pack('<Q', len(text)) + text)
            for name, shape in tensors:
                f.write(numbers(shape, rng).tobytes())
    with open(os.path.join(folder, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': {'total_size': total}, 'weight_map': where}, f)
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump({'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': HIDDEN,
                   'intermediate_size': INNER, 'num_hidden_layers': layers, 'num_attention_heads': 32,
                   'num_key_value_heads': 8, 'vocab_size': VOCABULARY, 'torch_dtype': 'bfloat16'}, f)
    torn = sum(where[n] != where[n.replace(a, b)] for a, b in (('q_proj', 'v_proj'), ('gate_proj', 'up_proj'))
               for n in where if a in n)
    return total, torn


def run(kerf, *args):
    """Seconds of processor."""
    p = subprocess.Popen([kerf, *args, '-j', '1', '-q'], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        raise SystemExit('%s: %d' % (' '.join(args), status))
    return usage.ru_utime + usage.ru_stime


def same(a, b):
    names = sorted(os.listdir(a))
    return names == sorted(os.listdir(b)) and not any(filecmp.cmpfiles(a, b, names, shallow=False)[1:])


def measure(kerf, model, folder, codec, layout):
    whole, out = os.path.join(folder, 'whole'), os.path.join(folder, 'out')
    args = ['quantize', model, '-f', codec, '--layout', layout]
    before = run(kerf, *args, '-o', whole)
    rows = []
    for parts in 1, 2, 3, 8:
        each = [run(kerf, *args, '-o', out, '--part', '%d/%d' % (i, parts)) for i in range(parts, 0, -1)]
        merge = run(kerf, 'merge', out)
        rows.append({'parts': parts, 'cpu_s': round(sum(each), 2), 'slowest_part_cpu_s': round(max(each), 2),
                     'merge_cpu_s': round(merge, 2), 'same_bytes': same(whole, out)})
        shutil.rmtree(out)
    shutil.rmtree(whole)
    after = run(kerf, *args, '-o', whole)
    shutil.rmtree(whole)
    one = (before + after) / 2
    for row in rows:
        row['efficiency'] = round(one / (row['cpu_s'] + row['merge_cpu_s']), 3)
        print(codec, layout, row, file=sys.stderr)
    return {'codec': codec, 'layout': layout, 'one_process_cpu_s': [round(before, 2), round(after, 2)], 'runs': rows}


def main():
    p = argparse.ArgumentParser()
    p.add_argument('kerf')
    p.add_argument('folder')
    p.add_argument('-f', default='nvfp4')
    p.add_argument('--layout', default='kerf,modelopt,compressed-tensors')
    p.add_argument('--gib', type=float, default=4)
    a = p.parse_args()
    model = os.path.join(a.folder, 'model')
    total, torn = make_model(model, a.gib)
    try:
        results = [measure(os.path.abspath(a.kerf), model, a.folder, codec, layout)
                   for codec in a.f.split(',') for layout in a.layout.split(',')]
    finally:
        shutil.rmtree(model)
    with open('/proc/cpuinfo') as f:
        cpu = next(line.split(':')[1].strip() for line in f if line.startswith('model name'))
    json.dump({'schema': 'kerf.bench-parts/1', 'command': 'bench/parts.py KERF FOLDER -f %s --layout %s --gib %g'
               % (a.f, a.layout, a.gib), 'device': '%s, %d processors, %s' % (cpu, os.cpu_count(), platform.system()),
               'bytes': total, 'shards': SHARDS, 'groups_in_two_files': torn, 'results': results}, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()

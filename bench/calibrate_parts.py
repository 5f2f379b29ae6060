#!/usr/bin/env python3
"""calibrate_parts.py - one calibration by 1, 2, 3, 4 and 8 parts and by one process: the same bytes, and what the
forward pass costs that each part repeats, in seconds of processor; beside it what was predicted.

    calibrate_parts.py KERF MODEL FOLDER [--rows A:B] [--length N] [--rounds N] >results.json

Every run has one thread, so that the sum of seconds does not depend on how many processors there are. All runs of a
request are done in turn, `rounds` (3) times, and the least of each counts: other work on the machine only adds.
`efficiency` is the time of one process divided by that of all parts and the merge together; `speedup` is divided by
that of the slowest part and the merge. The prediction counts multiplications of a token: a layer's weights, half of
columns^2 for each Gram matrix, hidden x vocabulary twice for each comparison of alpha (calibrate_share.c)."""
import argparse
import json
import os
import platform
import shutil
import sys

import parts

PARTS = 1, 2, 3, 4, 8
REQUESTS = {'gram and alpha by KL': ['--gram'], 'alpha by KL': [], 'gram': ['--gram', '--alpha-by', 'none']}
GROUPS = 4  # q, k and v; o; gate and up; down


def layer_costs(config, request):
    """(a layer's run, [what each layer costs its part], whether all layers are run)"""
    hidden, inner, layers = config['hidden_size'], config['intermediate_size'], config['num_hidden_layers']
    cache = hidden * config['num_key_value_heads'] // config['num_attention_heads']
    run = 2 * hidden * hidden + 2 * hidden * cache + 3 * hidden * inner
    gram = (3 * hidden**2 + inner**2) // 2 if '--gram' in request else 0
    alpha = '--alpha-by' not in request
    head = 2 * hidden * config['vocab_size']
    return run, [gram + (GROUPS * ((layers - i) * run + head) if alpha else 0) for i in range(layers)], alpha


def cost(own, run, costs, alpha):
    """Of a part with these layers."""
    if not own:
        return 0
    runs = len(costs) + max(own) - min(own) if alpha else max(own) + 1
    return runs * run + sum(costs[i] for i in own)


def layers_of(folder):
    """Which layers a part has, from 0: its files are calibration-00001-of-..."""
    return sorted(int(name.split('-')[1]) - 1 for name in os.listdir(folder) if name.startswith('calibration-'))


def once(a, args, out):
    """Seconds of one process, and for each number of parts of each part and of the merge; the layers of each."""
    whole = os.path.join(a.folder, 'whole')
    shutil.rmtree(whole, ignore_errors=True)
    took, own, same = {}, {}, True
    one = parts.run(a.kerf, *args, '-o', whole)
    for n in PARTS:
        each = [parts.run(a.kerf, *args, '-o', out, '--part', '%d/%d' % (i, n)) for i in range(1, n + 1)]
        own[n] = [layers_of('%s.kerf-parts/%d-of-%d' % (out, i, n)) for i in range(1, n + 1)]
        took[n] = each + [parts.run(a.kerf, 'merge', out)]
        same = same and parts.same(whole, out)
        shutil.rmtree(out)
    shutil.rmtree(whole)
    return one, took, own, same


def measure(a, config, name, request):
    args = ['calibrate', a.model, '--tokens', os.path.join(a.model, 'eval.u16'), '--rows', a.rows, '--length',
            str(a.length), *request]
    rounds = [once(a, args, os.path.join(a.folder, 'out')) for _ in range(a.rounds)]
    one = min(r[0] for r in rounds)
    costs = layer_costs(config, request)
    alone = cost(range(config['num_hidden_layers']), *costs)
    rows = []
    for n in PARTS:
        each = [min(x) for x in zip(*(r[1][n] for r in rounds))]
        own = rounds[0][2][n]
        expected = [cost(x, *costs) for x in own]
        rows.append({'parts': n, 'layers': own, 'cpu_s': [round(x, 2) for x in each[:-1]],
                     'merge_cpu_s': round(each[-1], 2), 'efficiency': round(one / sum(each), 3),
                     'predicted_efficiency': round(alone / sum(expected), 3),
                     'speedup': round(one / (max(each[:-1]) + each[-1]), 2),
                     'predicted_speedup': round(alone / max(expected), 2)})
        print(name, rows[-1], file=sys.stderr)
    return {'request': name, 'one_process_cpu_s': round(one, 2), 'same_bytes': all(r[3] for r in rounds), 'runs': rows}


def main():
    p = argparse.ArgumentParser()
    p.add_argument('kerf')
    p.add_argument('model')
    p.add_argument('folder')
    p.add_argument('--rows', default='0:64')
    p.add_argument('--length', type=int, default=256)
    p.add_argument('--rounds', type=int, default=3)
    a = p.parse_args()
    a.kerf = os.path.abspath(a.kerf)
    os.makedirs(a.folder, exist_ok=True)
    with open(os.path.join(a.model, 'config.json')) as f:
        config = json.load(f)
    with open('/proc/cpuinfo') as f:
        cpu = next(line.split(':')[1].strip() for line in f if line.startswith('model name'))
    results = [measure(a, config, name, request) for name, request in REQUESTS.items()]
    json.dump({'schema': 'kerf.bench-calibrate-parts/1', 'command': 'bench/calibrate_parts.py KERF %s FOLDER --rows %s '
               '--length %d --rounds %d' % (os.path.basename(a.model.rstrip('/')), a.rows, a.length, a.rounds),
               'device': '%s, %d processors, %s' % (cpu, os.cpu_count(), platform.system()), 'results': results},
              sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()

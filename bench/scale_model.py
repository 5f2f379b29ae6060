#!/usr/bin/env python3
"""scale_model.py - on paper: 671 billion parameters on 1 to 64 nodes by kerf-mpi, from constants that were measured
and bandwidths that are assumed. Prints the table of cli/parts.md.

    scale_model.py [--nodes-gb 12.5] [--disk-gb 100] [--cores 64]

One rank a node, which works on one file with all its cores. Reading, computing and writing overlap: the slowest counts.
Files go one by one to whoever is free, so the busiest node has the next whole number of equal files."""
import argparse
import json
import math
import os

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'results')
# DeepSeek-V3's linear weights in FP8 with scales, and as nvfp4 (kerf quantize -n on headers of that model): bytes
ELEMENTS, READ, FILES = 666.6e9, 666.67e9, 163
WRITE = ELEMENTS * 4.5 / 8
PLAN_S = 6.8       # headers, names, decisions: the same dry run, seconds of one core, on every rank
START_S = 0.7      # mpirun, two ranks on one machine
RENAME_S = 0.001   # of a file on a shared file system: assumed


def codec_rate(name):
    """Elements a second of one core."""
    with open(os.path.join(here, 'codec-zen5.json')) as f:
        rows = next(v for v in json.load(f).values() if isinstance(v, list))
    return next(r['median'] for r in rows if r['name'] == name)


def hash_rate():
    """Bytes a second that a core reads back and compares: the merges of parts-epyc.json."""
    with open(os.path.join(here, 'parts-epyc.json')) as f:
        d = json.load(f)
    return 1.2 * 2**30 / min(r['merge_cpu_s'] for x in d['results'] for r in x['runs'])


def seconds(a, codec, nodes):
    """Phases of the whole run, and what binds it. What the encoder looks at twice is in memory the second time; what
    was written is read back, as bench/results/mpi-epyc.json has it."""
    share = math.ceil(FILES / nodes) / FILES  # of the busiest node
    node, disk = a.nodes_gb * 1e9, a.disk_gb * 1e9
    core = 2 / codec_rate('decode/fp8-e4m3-128x128/BF16/avx512') + 1 / codec_rate('encode/%s/BF16/avx512' % codec)
    phases = {'read': (READ + WRITE) * share / node, 'compute': (ELEMENTS * core + WRITE / hash_rate()) * share / a.cores,
              'write': WRITE * share / node, 'file system': (READ + 2 * WRITE) / disk}
    bound = max(phases, key=phases.get)
    return phases, START_S + PLAN_S + phases[bound] + FILES * RENAME_S, bound


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--nodes-gb', type=float, default=12.5, help='GB/s of one node, in and out')
    p.add_argument('--disk-gb', type=float, default=100, help='GB/s of the file system, for all')
    p.add_argument('--cores', type=int, default=64)
    a = p.parse_args()
    print('%d cores a node, %g GB/s a node, %g GB/s for all; a core reads back %.1f GB/s'
          % (a.cores, a.nodes_gb, a.disk_gb, hash_rate() / 1e9))
    codecs = 'nvfp4:4/6', 'nvfp4:sweep'
    print('\n| nodes | files of the busiest | it reads s | it writes s | file system s |'
          + ''.join(' `%s` computes s | all s | efficiency | bound |' % c for c in codecs))
    print('|---:|---:|---:|---:|---:|' + '---:|---:|---:|---|' * len(codecs))
    for nodes in 1, 2, 4, 8, 16, 32, 64:
        row = ''
        for codec in codecs:
            phases, total, bound = seconds(a, codec, nodes)
            row += ' %.1f | %.1f | %.2f | %s |' % (phases['compute'], total, seconds(a, codec, 1)[1] / total / nodes, bound)
        print('| %d | %d | %.1f | %.1f | %.1f |' % (nodes, math.ceil(FILES / nodes), phases['read'], phases['write'],
                                                 phases['file system']) + row)
    print('\nA merge that reads all again on one node, as parts of `--part` need it: %.0f s.' % (WRITE / a.nodes_gb / 1e9))


main()

#!/usr/bin/env python3
"""fuzz.py - runs the fuzz targets, one after another on one core, and counts.

    fuzz.py BUILD SECONDS [--only TARGET] [--json FILE]    BUILD has targets with libFuzzer in them
    fuzz.py BUILD --minimize                               what they found becomes tests/data/fuzz

What is found stays in BUILD/corpus and is gone on with. An input that breaks something is kept in BUILD/found,
and the exit code is 1. The counts of earlier runs stay in the results file and are added to."""
import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, '../data/fuzz')
# The share of the time, and the longest input: a change costs what the file costs.
TARGETS = {'reader': (0.2, 40000), 'index': (0.1, 20000), 'command': (0.3, 40000), 'json': (0.2, 12000),
           'tokenizer': (0.1, 12000), 'request': (0.1, 4000)}
ABOUT = {'reader': 'readers of one file', 'index': 'folders of shards', 'command': 'the command on a checkpoint',
         'json': 'every JSON that is read', 'tokenizer': 'tokenizers and texts', 'request': 'requests to kerf serve'}
# Bytes of one input in tests/data/fuzz; all of them are at most 2 MB.
MOST_KEPT = {'reader': 6000, 'index': 6000, 'command': 8000, 'json': 6000, 'tokenizer': 6000, 'request': 2000}


def run(build, target, seconds):
    """One target for a while: what it counted."""
    corpus, found = (os.path.join(build, f, target) for f in ('corpus', 'found'))
    for folder in corpus, found:
        os.makedirs(folder, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    args = [os.path.join(build, 'tests/fuzz/fuzz_' + target), corpus, os.path.join(DATA, target),
            '-max_total_time=%d' % seconds, '-max_len=%d' % TARGETS[target][1], '-close_fd_mask=3', '-timeout=20',
            '-rss_limit_mb=3000', '-artifact_prefix=%s/' % found, '-print_final_stats=1', '-len_control=0']
    env = dict(os.environ, ASAN_OPTIONS='detect_leaks=1:allocator_may_return_null=1', OMP_NUM_THREADS='1')
    p = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    text = p.stderr.decode('utf-8', 'replace')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    covered = re.findall(r'cov: (\d+) ft: (\d+) corp: (\d+)/', text) or [(0, 0, 0)]
    executed = re.findall(r'stat::number_of_executed_units: (\d+)', text) or re.findall(r'#(\d+)\t', text) or [0]
    if p.returncode != 0:
        print(text[-6000:])
    edges, features, inputs = map(int, covered[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {'target': target, 'about': ABOUT[target], 'executions': int(executed[-1]), 'edges': edges, 'features': features,
            'corpus': inputs, 'failures': int(p.returncode != 0), 'cpu_seconds': round(cpu, 1),
            'seconds': round(time.monotonic() - began, 1)}


def write_results(path, rows):
    try:
        with open(path) as f:
            earlier = json.load(f)['all_runs']
    except (OSError, ValueError, KeyError):
        earlier = {'runs': 0, 'executions': 0, 'cpu_seconds': 0}
    compiler = subprocess.run(['clang', '--version'], capture_output=True, text=True).stdout.split('\n')[0]
    with open('/proc/cpuinfo') as f:
        cpu = re.search(r'model name\s*: (.*)', f.read())
    document = {
        'schema': 'kerf.fuzz/1',
        'command': 'bash tests/run.sh --fuzz SECONDS',
        'machine': {'cpu': cpu.group(1) if cpu else platform.machine(), 'cores_used': 1},
        'compiler': compiler,
        'sanitizers': 'address, undefined',
        'targets': rows,
        'all_runs': {'runs': earlier['runs'] + 1,
                     'executions': earlier['executions'] + sum(r['executions'] for r in rows),
                     'cpu_seconds': round(earlier['cpu_seconds'] + sum(r['cpu_seconds'] for r in rows), 1)},
    }
    with open(path, 'w') as f:
        json.dump(document, f, indent=2)
        f.write('\n')


def minimize(build):
    """The inputs that reach all that was reached by short ones, the shortest first."""
    for target in TARGETS:
        kept = os.path.join(DATA, target)
        old, new = (os.path.join(build, folder, target) for folder in ('short', 'minimized'))
        for folder in old, new:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        for folder in os.path.join(build, 'corpus', target), kept:
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if os.path.getsize(os.path.join(folder, name)) <= MOST_KEPT[target]:
                    shutil.copy(os.path.join(folder, name), old)
        subprocess.run([os.path.join(build, 'tests/fuzz/fuzz_' + target), '-merge=1', '-close_fd_mask=3', new, old],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(new, kept)
        sizes = [os.path.getsize(os.path.join(kept, f)) for f in os.listdir(kept)]
        print('%s: %d inputs, %d bytes' % (target, len(sizes), sum(sizes)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('seconds', nargs='?', type=float, default=0)
    p.add_argument('--only')
    p.add_argument('--json')
    p.add_argument('--minimize', action='store_true')
    a = p.parse_args()
    build = os.path.abspath(a.build)
    if a.minimize:
        return minimize(build)
    rows = []
    for target, (share, _) in TARGETS.items():
        if a.only in (None, target):
            rows.append(run(build, target, max(1, a.seconds * (1 if a.only else share))))
            print('fuzz_{target}: {executions} executions, {edges} edges, {corpus} inputs kept, {failures} failed, '
                  '{cpu_seconds:.0f} s of processor'.format(**rows[-1]), flush=True)
    if a.json:
        write_results(a.json, rows)
    return 1 if any(r['failures'] for r in rows) else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""faults.py - all campaigns in full, several at a time, and their results in one file.

    faults.py BUILD [--json FILE] [--kills N] [-j N] [--only sweep,serving,power,planted,kills,others]"""
import argparse
import concurrent.futures
import json
import os
import re
import sys
import time

import fault_sweep
import kills
import others
import power_loss
import serving
from room import Tally
from scenarios import SCENARIOS

ABOUT = {
    'sweep': 'every call of %d commands fails: once, for good, short, or cut by a signal' % len(SCENARIOS),
    'power': 'the power goes after every call that changes the disk',
    'planted': 'the same with syncs left out, or a rename before the sync: each is noticed',
    'kills': 'kill -9 at random calls and moments',
    'serving': 'every call of a server fails: while it starts, answers, runs a job and ends',
    'others': 'other programs: two writers, a source that changes, a folder that vanishes',
}


def campaign(build, test, name, number):
    """One part, in a process of its own: its tally."""
    if test == 'serving':
        return serving.run(build, everything=True, kinds=[name], part=number)
    if test == 'sweep':
        return fault_sweep.run(build, everything=True, only=name)
    if test == 'kills':
        return kills.run(build, number, seed=1)
    if test == 'others':
        return others.run(build, everything=True)
    return power_loss.run(build, everything=True, only=name, planted=test == 'planted')


def parts(number):
    """(test, scenario, kills), the long ones first."""
    yield from (('sweep', s.name, 0) for s in sorted(SCENARIOS, key=lambda s: -s.slow))
    yield from (('serving', kind, part) for kind in serving.KINDS for part in range(serving.PARTS))
    yield 'kills', None, number
    yield 'others', None, 0
    for s in SCENARIOS:
        if s.writes:
            yield 'power', s.name, 0
            yield 'planted', s.name, 0


def tell(at, number, part, tally, seconds):
    """A line for a part that has come to its end, with what failed in it, as ctest has one for a test: all parts
    take many minutes, and who stops them early shall have what was found."""
    test, name, of = part
    what = test + (', ' + name if name else '') + (' %d' % of if test == 'serving' else '')
    print('%3d/%d %s: %d cases, %d failed, %.0f s of processor (%.0f s since the begin)'
          % (at, number, what, tally.cases, len(tally.failed), tally.cpu_seconds, seconds))
    for line in tally.failed:
        print('FAIL:', line)
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--json')
    p.add_argument('--kills', type=int, default=1000)
    p.add_argument('-j', type=int, default=os.cpu_count())
    p.add_argument('--only', default=','.join(ABOUT))
    a = p.parse_args()
    a.build = os.path.abspath(a.build)  # a worker that has left its room stands elsewhere
    total = {test: Tally(ABOUT[test]) for test in a.only.split(',')}
    began = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(a.j) as pool:
        work = {pool.submit(campaign, a.build, *part): part for part in parts(a.kills) if part[0] in total}
        for at, done in enumerate(concurrent.futures.as_completed(work), 1):
            tally = done.result()
            total[work[done][0]].join(tally)
            tell(at, len(work), work[done], tally, time.monotonic() - began)
    for tally in total.values():
        tally.report(most=0)
    if a.json:
        with open('/proc/cpuinfo') as f:
            cpu = re.search(r'model name\s*: (.*)', f.read())
        with open(a.json, 'w') as f:
            json.dump({'schema': 'kerf.faults/1', 'command': 'bash tests/run.sh --faults',
                       'machine': {'cpu': cpu.group(1) if cpu else 'unknown'},
                       'tests': [t.result() for t in total.values()]}, f, indent=2)
            f.write('\n')
    return 0 if all(t.cases and not t.failed for t in total.values()) else 1


if __name__ == '__main__':
    sys.exit(main())

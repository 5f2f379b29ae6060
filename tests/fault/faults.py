#!/usr/bin/env python3
"""faults.py - all campaigns in full, and their results in one file.

    faults.py BUILD [--json FILE] [--kills N]"""
import argparse
import json
import re
import sys

import fault_sweep
import kills
import others
import power_loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--json')
    p.add_argument('--kills', type=int, default=1000)
    a = p.parse_args()
    rows, right = [], True
    for campaign in (lambda: fault_sweep.run(a.build, everything=True), lambda: power_loss.run(a.build, everything=True),
                     lambda: power_loss.run(a.build, everything=True, planted=True),
                     lambda: kills.run(a.build, a.kills, seed=1), lambda: others.run(a.build, everything=True)):
        tally, row = campaign()
        right &= tally.report(most=1000)
        rows.append(row)
        sys.stdout.flush()
    if a.json:
        with open('/proc/cpuinfo') as f:
            cpu = re.search(r'model name\s*: (.*)', f.read())
        with open(a.json, 'w') as f:
            json.dump({'schema': 'kerf.faults/1', 'command': 'bash tests/run.sh --faults',
                       'machine': {'cpu': cpu.group(1) if cpu else 'unknown'}, 'tests': rows}, f, indent=2)
            f.write('\n')
    return 0 if right else 1


if __name__ == '__main__':
    sys.exit(main())

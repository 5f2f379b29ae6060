#!/usr/bin/env python3
"""table.py - writes the table of README's section on reliability from bench/results/faults.json and fuzz.json;
--check only compares."""
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
BEGIN, END = '<!-- reliability:begin -->\n', '<!-- reliability:end -->\n'


def results(name):
    with open(os.path.join(ROOT, 'bench/results', name)) as f:
        return json.load(f)


def lines():
    yield '| test | cases | failures | s of one core |'
    yield '|---|---:|---:|---:|'
    for t in results('faults.json')['tests']:
        yield '| %s | %s | %d | %.0f |' % (t['test'], f"{t['cases']:,}", t['failures'], t['cpu_seconds'])
    fuzz = results('fuzz.json')
    for t in fuzz['targets']:
        yield '| fuzzing: %s (%s edges) | %s | %d | %.0f |' % (
            t['about'], f"{t['edges']:,}", f"{t['executions']:,}", t['failures'], t['cpu_seconds'])
    total = fuzz['all_runs']
    yield '| fuzzing, all runs so far | %s | | %.0f |' % (f"{total['executions']:,}", total['cpu_seconds'])


def main():
    path = os.path.join(ROOT, 'README.md')
    with open(path) as f:
        text = f.read()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    new = head + BEGIN + '\n'.join(lines()) + '\n' + END + tail
    if '--check' in sys.argv:
        return 0 if new == text else 'README.md does not say what bench/results has: run tests/fault/table.py'
    with open(path, 'w') as f:
        f.write(new)
    return 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""table.py - writes the tables on reliability, of cli/reference.md and in short of README.md, from
bench/results/faults.json and fuzz.json; --check only compares."""
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')


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


def short():
    tests, fuzz = results('faults.json')['tests'], results('fuzz.json')
    cases = {t['test']: t for t in tests}
    failures = sum(t['failures'] for t in tests) + sum(t['failures'] for t in fuzz['targets'])
    yield '| tried | cases |'
    yield '|---|---:|'
    for name, t in cases.items():
        if 'each is noticed' not in name:
            yield '| %s | %s |' % (name, f"{t['cases']:,}")
    yield '| hostile files, by fuzzing | %s |' % f"{fuzz['all_runs']['executions']:,}"
    yield '| **failures in the last run** | **%d** |' % failures


def fresh(text, name, rows):
    begin, end = f'<!-- {name}:begin -->\n', f'<!-- {name}:end -->\n'
    head, rest = text.split(begin)
    return head + begin + '\n'.join(rows) + '\n' + end + rest.split(end)[1]


def main():
    status = 0
    for page, name, rows in (('cli/reference.md', 'reliability', lines()), ('README.md', 'reliability-short', short())):
        path = os.path.join(ROOT, page)
        with open(path) as f:
            text = f.read()
        new = fresh(text, name, rows)
        if new != text and '--check' in sys.argv:
            print(page, 'does not say what bench/results has: run tests/fault/table.py')
            status = 1
        elif new != text:
            with open(path, 'w') as f:
                f.write(new)
    return status


if __name__ == '__main__':
    sys.exit(main())

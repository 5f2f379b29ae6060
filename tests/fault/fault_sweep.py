#!/usr/bin/env python3
"""fault_sweep.py - every call of a run fails once: exit code 0 then means the bytes of an undisturbed run;
anything else is a documented code, one line, and a folder as it was before.

    fault_sweep.py BUILD [--all] [--only NAME] [--planted]

Without --all: the scenarios of the gate, each call of each kind, failing once with the error that is usual for it.
--all: all scenarios; also other errors, calls that fail from the N-th on, come back short, or are cut by a
signal. --planted: a fault is planted in the JSON library's setters, which must be noticed."""
import argparse
import errno
import json
import os
import re
import sys

from room import Room, Tally
from scenarios import SCENARIOS, prepare

# What fails, how, and which exit codes may say so. The first error of a kind is the usual one.
FAULTS = {
    'memory': ([errno.ENOMEM], {5}),
    'thread': ([errno.EAGAIN], {5}),
    'open': ([errno.EMFILE, errno.EACCES, errno.EIO, errno.EINTR], {4}),
    'list': ([errno.EIO], {4}),
    'read': ([errno.EIO], {4}),
    'write': ([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG], {4}),
    'sync': ([errno.EIO, errno.ENOSPC], {4}),
    'rename': ([errno.EACCES, errno.ENOSPC, errno.EXDEV], {4}),
    'reserve': ([errno.ENOSPC, errno.EIO], {4}),
    'stat': ([errno.EIO, errno.EACCES, errno.ENOMEM], {4}),
    'mkdir': ([errno.ENOSPC, errno.EACCES], {4}),
    'unlink': ([errno.EACCES, errno.EIO], {4}),
    'close': ([errno.EIO, errno.EINTR], {4}),
    'lock': ([errno.ENOLCK, errno.EINTR], {4}),
}
SUCCESS_ONLY = {0}

# Seconds and speeds differ from run to run.
TIMES = re.compile(rb'("[a-z_]*(?:seconds|_s)": ?)[-0-9.e+]+|[0-9.]+ s\b|[0-9.]+ MB/s')


def blur(s, what):
    """A text, or {path: bytes}, without what differs between two undisturbed runs of a scenario."""
    if isinstance(what, dict):
        return {p: re.sub(s.varies, b'#', d) if s.varies and d else d for p, d in what.items()}
    return re.sub(s.varies or rb'\Z', b'#', TIMES.sub(rb'\1', what))


def plans(everything):
    """(kind, words for the shim, exit codes that are right)"""
    for kind, (errors, codes) in FAULTS.items():
        for error in errors if everything else errors[:1]:
            codes = codes | ({5} if error == errno.ENOMEM else set())
            yield kind, 'what=fail error=%d' % error, codes
            if everything and kind not in ('unlink', 'lock'):
                yield kind, 'what=fail for=0 error=%d' % error, codes
    for kind in 'read', 'write':
        yield kind, 'what=short', SUCCESS_ONLY
        yield kind, 'what=fail for=3 error=%d' % errno.EINTR, SUCCESS_ONLY
        if everything:
            yield kind, 'what=short for=0', SUCCESS_ONLY
    yield 'read', 'what=end', {4}
    if everything:
        yield 'read', 'what=end for=0', {4}


def lines_of(scenario, err):
    """Lines that are errors or summaries: without those of --progress json, which must be JSON."""
    wrong, rest = [], []
    for line in err.splitlines():
        if '--progress' in scenario.args and line.startswith('{'):
            try:
                json.loads(line)
            except ValueError:
                wrong.append('a line of progress is not JSON: ' + line[:80])
        else:
            rest.append(line)
    return rest, wrong


def count_lines(err):
    """Lines on standard error, but for those that come every half second."""
    return sum('"event":"bytes"' not in line for line in err.splitlines())


class Sweep:
    def __init__(self, room, preload=()):
        self.room, self.preload = room, preload

    def undisturbed(self, s):
        """What the scenario gives when nothing fails, and how many calls it makes."""
        self.room.put(s.before)
        code, out, err = self.room.run(s.args, s.shim)
        if code != s.code:
            raise SystemExit('%s: exit code %s instead of %d: %s' % (s.name, code, s.code, err))
        self.out, self.lines = blur(s, out), count_lines(err)
        self.after = blur(s, self.room.look())
        self.sources = look_at_sources()
        self.room.put(s.before)
        calls = self.room.count(s.args, s.shim, preload=self.preload)
        self.room.put(s.before)
        return calls

    def judge_success(self, s, kind, words, out, err, after):
        _, wrong = lines_of(s, err)
        is_written = kind != 'write' or 'short' in words or words.endswith('error=%d' % errno.EINTR)
        if is_written and count_lines(err) != self.lines:
            wrong.append('other lines on standard error: ' + err.replace('\n', ' / ')[:200])
        if blur(s, out) != self.out:
            wrong.append('other text on standard output')
        differ = different(after, self.after)
        if differ and not (kind == 'unlink' and all('.kerf-tmp-' in p for p in differ)):
            wrong.append('other files: ' + ' '.join(differ))
        return wrong

    def judge_failure(self, s, kind, words, code, codes, err, after):
        wrong = []
        if code not in codes | s.codes:
            wrong.append('exit code %s' % code)
        lines, bad = lines_of(s, err)
        wrong += bad
        errors = [x for x in lines if x.startswith('kerf: ')]
        unsaid = kind == 'write' and not errors  # standard error itself could not be written
        if len(errors) != 1 and not unsaid:
            wrong.append('not one line of error: ' + ' / '.join(lines)[:200])
        for path in different(after, s.before):
            tops = {path.split('/')[0], (s.writes or path).split('/')[0]}
            is_whole = after.get(path) == self.after.get(path) and (
                any(top + ' is written, and whole' in err for top in tops) or 'in place and whole' in err or unsaid)
            is_kept = path == s.keeps or self.is_stuck(s, kind, words, path) or '.kerf-tmp-' in path and (s.goes_on or kind == 'unlink')
            if not is_whole and not is_kept:
                wrong.append('left behind: ' + path)
        return wrong

    def is_stuck(self, s, kind, words, path):
        """When no rename succeeds any more, none can be taken back: the next run must go on with what waits."""
        return bool(s.stage) and kind == 'rename' and 'for=0' in words and path.startswith(s.stage + '/')

    def judge_next(self, s):
        """What may be left must be cleared, and gone on with, by the next run."""
        code, _, err = self.room.run(s.again)
        if code != s.code:
            return ['the next run ends with %s: %s' % (code, err.strip()[:200])]
        differ = different(blur(s, self.room.look()), self.after)
        return ['after the next run: ' + ' '.join(differ)] if differ else []

    def one(self, s, kind, n, words, codes):
        code, out, err = self.room.run(s.args, 'call=%s at=%d %s %s' % (kind, n, words, s.shim), preload=self.preload)
        after = blur(s, self.room.look())
        if code == s.code:
            wrong = self.judge_success(s, kind, words, out, err, after)
        else:
            wrong = self.judge_failure(s, kind, words, code, codes, err, after)
        stuck = code != s.code and any(self.is_stuck(s, kind, words, p) for p in different(after, s.before))
        if code != s.code and s.keeps in after or any('.kerf-tmp-' in p for p in after) or stuck:
            wrong += self.judge_next(s)
            after = None
        if after != s.before:
            self.room.put(s.before)
        return wrong

    def scenario(self, s, everything, tally):
        calls = self.undisturbed(s)
        for kind, words, codes in plans(everything and not s.slow):
            if self.preload and kind != 'memory':
                continue
            for n in range(1, calls[kind] + 1):
                wrong = self.one(s, kind, n, words, codes)
                tally.add('%s, %s %d, %s' % (s.name, kind, n, words), wrong)
        if look_at_sources() != self.sources:
            tally.add(s.name, ['a source has changed'])


def different(a, b):
    return sorted(p for p in a.keys() | b.keys() if a.get(p, 0) != b.get(p, 0))


def look_at_sources():
    return {os.path.join(d, f): os.stat(os.path.join(d, f)).st_mtime_ns for d, _, fs in os.walk('in') for f in fs}


def verbs_without(room):
    """Verbs that no scenario runs; serving.py runs serve."""
    _, out, _ = room.run(['help'])
    verbs = re.findall(r'^  ([a-z]+) ', out.decode(), re.M)
    return [v for v in verbs if v != 'serve' and all(s.args[0] != v for s in SCENARIOS)] if verbs else ['all']


def run(build, everything=False, only=None, planted=False):
    tally = Tally('every call fails')
    with Room(build) as room:
        sweep = Sweep(room, [room.planted] if planted else [])
        only = 'version' if planted else only
        chosen = prepare(room, lambda s: s.name == only if only else everything or s.gate)
        if not only:
            tally.add('verbs without a scenario', verbs_without(room))
        for s in chosen:
            sweep.scenario(s, everything, tally)
    return tally.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--all', action='store_true')
    p.add_argument('--only')
    p.add_argument('--planted', action='store_true')
    a = p.parse_args()
    tally = run(a.build, a.all, a.only, a.planted)
    right = tally.report()
    if a.planted:
        right = any('other text on standard output' in f for f in tally.failed)
        print('the planted fault is %s' % ('noticed' if right else 'not noticed'))
    sys.exit(0 if right else 1)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""kills.py - kill -9 at random calls and random moments: the output is the old one or the new one, whole, and
the next run succeeds, with the bytes of an undisturbed run, and clears what the killed one left.

    kills.py BUILD [--kills N] [--seed N]

Over new, resumed, overwritten, resharded and compressed outputs, convert and dequantize, in turn. Half of the
runs end before or after a call that is drawn (among threads, too), half at a moment of the time that such a run
takes. A resumed output is killed up to four times before it may end."""
import argparse
import random
import sys
import time
import os
import signal

from room import Room, Tally
from scenarios import prepare

NAMES = ['file', 'folder', 'resumed', 'file over a file', 'folder over a folder', 'resharded', 'compressed', 'gguf',
         'convert', 'convert over a folder', 'dequantize', 'dequantize a compressed file', 'one part of two', 'merge',
         'merge over a folder']
KINDS = 'open,list,read,write,sync,rename,reserve,stat,mkdir,unlink,close,lock,thread'


class Kills:
    def __init__(self, room, rnd):
        self.room, self.rnd = room, rnd
        self.whole = self.old = self.resumed = 0

    def measure(self, s):
        self.room.put(s.before)
        began = time.monotonic()
        code, _, err = self.room.run(s.args, s.shim)
        s.seconds = time.monotonic() - began
        if code != s.code:
            raise SystemExit('%s: exit code %s: %s' % (s.name, code, err))
        s.after = self.room.look()
        self.room.put(s.before)
        calls = self.room.count(s.args, s.shim)
        s.calls = sum(calls[k] for k in KINDS.split(','))

    def kill_one(self, s):
        """Whether the run was killed: it may have been faster."""
        if self.rnd.random() < 0.5:
            what = self.rnd.choice(['kill', 'kill-after'])
            at = self.rnd.randint(1, s.calls)
            code, _, _ = self.room.run(s.args, 'call=%s at=%d what=%s %s' % (KINDS, at, what, s.shim))
        else:
            pid = self.room.start(s.args, s.shim)
            time.sleep(self.rnd.random() * s.seconds)
            os.kill(pid, signal.SIGKILL)
            code, _, _ = self.room.finish(pid)
        return code == -signal.SIGKILL

    def published(self, s, files):
        """What is an output: no temporaries, nothing that waits."""
        def waits(p):
            return s.stage and p.split('/')[0] == s.stage and not (p + '/').startswith(s.writes + '/')
        return {p: d for p, d in files.items() if '.kerf-tmp-' not in p and not waits(p)}

    def wrong_output(self, s, now):
        seen, new, old = (self.published(s, x) for x in (now, s.after, s.before))
        if seen == new:
            self.whole += 1
        elif seen == old:
            self.old += 1
        else:
            return ['neither the old nor the new output: ' +
                    ' '.join(sorted(p for p in seen.keys() | new.keys() if seen.get(p, 0) != new.get(p, 0)))]
        return []

    def wrong_next(self, s):
        code, _, err = self.room.run(s.again, s.shim)
        self.resumed += 'goes on' in err
        if code != s.code and not (s.done and s.done in err):
            return ['the next run ends with %s: %s' % (code, err.strip()[:200])]
        differ = self.room.look()
        return [] if differ == s.after else ['after the next run there is ' + ' '.join(differ)]

    def attempt(self, s, tally):
        self.room.put(s.before)
        for _ in range(self.rnd.randint(1, 4) if s.goes_on else 1):
            killed = self.kill_one(s)
            now = self.room.look()
            wrong = self.wrong_output(s, now)
            if killed:
                tally.add(s.name + ', killed', wrong)
            if not killed or s.writes in now and s.writes not in s.before:
                break
        wrong = self.wrong_next(s)
        if wrong:
            tally.add(s.name + ', the run after', wrong)


def run(build, kills, seed):
    tally = Tally('kill -9')
    with Room(build) as room:
        chosen = prepare(room, lambda s: s.name in NAMES, rows=256)
        k = Kills(room, random.Random(seed))
        for s in chosen:
            k.measure(s)
        again = [s for s in chosen if s.goes_on]
        while tally.cases < kills:
            for s in chosen + again:
                if tally.cases < kills:
                    k.attempt(s, tally)
    print('%d runs left the old output or none, %d the new one; %d runs went on where one was killed'
          % (k.old, k.whole, k.resumed))
    if not k.old or not k.whole or (kills >= 500 and not k.resumed):
        tally.add('the kills', ['came all at the same moment, or nothing was ever resumed'])
    return tally.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--kills', type=int, default=50)
    p.add_argument('--seed', type=int, default=int(time.time()))
    a = p.parse_args()
    print('seed', a.seed)
    tally = run(a.build, a.kills, a.seed)
    sys.exit(0 if tally.report() else 1)


if __name__ == '__main__':
    main()

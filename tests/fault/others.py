#!/usr/bin/env python3
"""others.py - other programs meanwhile. A run is stopped before one call after another, somebody changes the
world, the run goes on:

  two writers        another run writes the same output: both end as documented, one output stands there, whole
  a folder vanishes  the folder of the output is removed: exit code 4, and no trace of it
  a source changes   a file is cut, written to, replaced or removed: exit code 4, or the answer of before, or
                     that of a run which began after the change
  a slow source      every read takes long: the same bytes; a signal ends it at once, with nothing left

    others.py BUILD [--all]"""
import argparse
import os
import shutil
import signal
import sys
import time

from room import Room, Tally
from scenarios import prepare

ALL_CALLS = 'open,list,read,write,sync,rename,reserve,stat,mkdir,unlink,close,lock,thread'


def stopped(room, args, shim):
    """Starts a run that the shim stops. Its process id, or None when it ended first."""
    pid = room.start(args, shim)
    _, status = os.waitpid(pid, os.WUNTRACED)
    return pid if os.WIFSTOPPED(status) else None


def go_on(room, pid):
    os.kill(pid, signal.SIGCONT)
    return room.finish(pid)


def one_line(err):
    errors = [line for line in err.splitlines() if line.startswith('kerf: ')]
    return [] if len(errors) == 1 else ['not one line of error: ' + err[:200]]


# --- two writers -----------------------------------------------------------------------------------

def two_writers(room, tally, everything):
    pairs = [('quantize in/model -f nvfp4:4/6 -j 1 -o o', 'quantize in/model -f int8 -j 1 -o o'),
             ('quantize in/one.safetensors -f nf4 -j 1 -o o.safetensors',
              'quantize in/one.safetensors -f int8 -j 1 -o o.safetensors')]
    if everything:
        pairs += [(a + ' --resume', b) for a, b in pairs]
    for a, b in pairs:
        for over in [], ['-y']:
            both(room, tally, a.split() + over, b.split() + over, bool(over))


def both(room, tally, first, second, is_over):
    outputs = []
    for args in first, second:
        room.put({})
        room.must(*args)
        outputs.append(room.look())
    room.put({})
    if is_over:
        room.must(*first)
    before = room.look()
    calls = sum(n for k, n in room.count(first).items() if k != 'memory')
    for n in range(1, calls + 1):
        room.put(before)
        pid = stopped(room, first, 'call=%s at=%d what=stop' % (ALL_CALLS, n))
        if pid is None:
            break
        keep = room.side
        room.side = keep + '/second'
        os.makedirs(room.side, exist_ok=True)
        code_b, _, err_b = room.run(second)
        room.side = keep
        code_a, _, err_a = go_on(room, pid)
        right = [(0, 0)] if is_over else [(0, 4), (4, 0)]  # without -y, whoever is second finds an output
        wrong = [] if (code_a, code_b) in right else ['exit codes %s and %s: %s %s' % (code_a, code_b, err_a, err_b)]
        now = room.look()
        if code_a != 0 and '--resume' in first:  # what it had finished is left to the next run
            now = {p: d for p, d in now.items() if '.kerf-tmp-' not in p}
        if now not in outputs:
            wrong.append('there is ' + ' '.join(sorted(now)))
        elif not is_over and now != outputs[0 if code_a == 0 else 1]:
            wrong.append('the output is not of the run that ended with 0')
        tally.add('%s stopped before call %d, then %s' % (' '.join(first), n, ' '.join(second)), wrong)
    room.put({})


# --- the folder of the output ----------------------------------------------------------------------

def vanishing_folder(room, tally, everything):
    lines = ['quantize in/model -f nvfp4:4/6 -j 1 -o place/o', 'quantize in/one.safetensors -f int8 -j 1 -o place/o.safetensors']
    if everything:
        lines += ['quantize in/model -f nvfp4:4/6 -j 1 --resume -o place/o', 'convert in/ct --layout modelopt -o place/o',
                  'quantize in/one.safetensors -f int8 -j 1 -o place/o.safetensors.zst',
                  'verify in/one.safetensors in/q.safetensors -j 1 --write-limits place/l.json']
    for line in lines:
        args = line.split()
        room.put({'place': None})
        calls = sum(n for k, n in room.count(args).items() if k != 'memory')
        for n in range(1, calls + 1):
            room.put({'place': None})
            pid = stopped(room, args, 'call=%s at=%d what=stop' % (ALL_CALLS, n))
            if pid is None:
                break
            was_there = os.path.exists(args[-1])
            shutil.rmtree('place')
            code, _, err = go_on(room, pid)
            wrong = []
            if code != 4 and not (code == 0 and was_there):
                wrong.append('exit code %s: %s' % (code, err.strip()))
            if code != 0:
                wrong += one_line(err)
            if room.look():
                wrong.append('left: ' + ' '.join(room.look()))
            tally.add('%s, its folder removed before call %d' % (line, n), wrong)
    room.put({})


# --- the source ------------------------------------------------------------------------------------

def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def written(path):
    with open(path, 'r+b') as f:
        f.seek(-3, 2)
        f.write(b'xyz')


def replaced(path):
    with open(path, 'rb') as f:
        data = f.read()
    with open(path + '.new', 'wb') as f:
        f.write(data[:-3] + b'xyz')
    os.rename(path + '.new', path)


def changing_source(room, tally, everything):
    """The source stands in `s`, which a run may not write either."""
    weights, config = 's/model-00002-of-00002.safetensors', 's/config.json'
    lines = ['quantize s -f nvfp4:4/6 -j 1 -o o', 'inspect s --json', 'score s -f nvfp4 -j 1 --json']
    changes, files = [cut], [weights, config]
    if everything:
        lines += ['advise s --budget 5bits -f nvfp4,int8 -j 1 -o r.json', 'verify s in/ct -j 1 --json',
                  'quantize s -f nvfp4 -j 1 -o o.safetensors.zst', 'convert s --layout kerf -o o', 'dequantize s -o o']
        changes += [written, replaced, os.unlink]
        files.append('s/model.safetensors.index.json')
    for line in lines:
        folder = 'in/ct' if line.split()[0] in ('convert', 'dequantize') else 'in/model'
        sources = {'s/' + n: open(os.path.join(folder, n), 'rb').read() for n in os.listdir(folder)}
        if folder == 'in/ct' and not all(f in sources for f in files):
            raise SystemExit('in/ct has other shards than in/model')
        for path in files:
            for change in changes:
                one_change(room, tally, line, {'s': None, **sources}, path, change)


def answer(room, args):
    code, out, _ = room.run(args)
    return code, without_times(out), {p: d for p, d in room.look().items() if p != 's' and not p.startswith('s/')}


def without_times(out):
    from fault_sweep import TIMES
    return TIMES.sub(rb'\1', out)


def one_change(room, tally, line, sources, path, change):
    args = line.split()
    room.put(sources)
    right = [answer(room, args)]
    room.put(sources)
    change(path)
    right.append(answer(room, args))
    room.put(sources)
    at = room.path + '/s'
    calls = sum(n for k, n in room.count(args).items() if k in ('open', 'list', 'read', 'stat', 'close'))
    for n in range(1, calls + 1):
        room.put(sources)
        pid = stopped(room, args, 'call=open,list,read,stat,close under=%s at=%d what=stop' % (at, n))
        if pid is None:
            break
        change(path)
        code, out, err = go_on(room, pid)
        files = {p: d for p, d in room.look().items() if p != 's' and not p.startswith('s/')}
        wrong = []
        if code == 4:
            wrong = one_line(err) + (['left: ' + ' '.join(files)] if files else [])
        elif (code, without_times(out), files) not in right:
            wrong = ['exit code %s, another answer: %s' % (code, err.strip()[:200])]
        tally.add('%s, %s %s before call %d' % (line, path, change.__name__, n), wrong)


# --- a slow source ---------------------------------------------------------------------------------

def slow_source(room, tally):
    for line in 'quantize in/model -f nvfp4:4/6 -j 1 -o o', 'quantize in/model -f nvfp4:4/6 -j 1 --resume -o o':
        args = line.split()
        room.put({})
        room.must(*args)
        after = room.look()
        room.put({})
        crawl = 'call=read under=%s/in at=1 for=0 what=slow delay_us=' % room.path
        code, _, err = room.run(args, crawl + '20000')
        wrong = [] if (code, room.look()) == (0, after) else ['exit code %s, %s' % (code, err)]
        tally.add(line + ', every read takes 20 ms', wrong)

        room.put({})
        pid = room.start(args, crawl + '300000')
        time.sleep(0.5)
        os.kill(pid, signal.SIGTERM)
        began = time.monotonic()
        code, _, err = room.finish(pid)
        took, left = time.monotonic() - began, room.look()
        wrong = [] if code == 128 + signal.SIGTERM else ['exit code %s: %s' % (code, err)]
        if took > 2:  # of some 15
            wrong.append('a signal ended it after %.2f s' % took)
        if left and '--resume' not in args:
            wrong.append('left: ' + ' '.join(left))
        tally.add(line + ', ended while it reads', wrong)
    room.put({})


def run(build, everything=False):
    tally = Tally('other programs')
    with Room(build) as room:
        prepare(room, lambda s: False)
        two_writers(room, tally, everything)
        vanishing_folder(room, tally, everything)
        changing_source(room, tally, everything)
        slow_source(room, tally)
    return tally.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--all', action='store_true')
    a = p.parse_args()
    tally = run(a.build, a.all)
    sys.exit(0 if tally.report() else 1)


if __name__ == '__main__':
    main()

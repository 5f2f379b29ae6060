#!/usr/bin/env python3
"""mpi.py - kerf-mpi on one machine: what ranks cost in seconds of processor, what a slow one changes, and what a
hundred kills leave.

    mpi.py KERF FOLDER growth [-f FORMAT[:ENCODER],...] [--layout NAME] [--gib N] >results.json
    mpi.py KERF FOLDER same [-f ...] [--layout NAME,...] [--gib N]
    mpi.py KERF FOLDER slow [-f ...] [--gib N]
    mpi.py KERF FOLDER kills [-f ...] [--gib N] [--rounds N]
    mpi.py KERF FOLDER disk [-f ...] [--gib N] [--rates MB/S,...]

Makes the model of parts.py in FOLDER and removes it. kerf-mpi stands beside KERF. Seconds of processor are of
mpirun, all ranks, start and end of MPI; one process stands before and after each number of ranks, for other work on
the machine makes all slower. growth: 1, 2, 4 and 8 ranks of one thread. same: whether 1, 2, 3 and 8 ranks, and 3
and 8 parts from the last to the first, write the bytes of one process in each layout. slow: three ranks, one of
which is stopped for nine tenths of the time. kills: two to four ranks, one of which is killed at a random moment,
over and over, each run with --resume; whenever an output is there it is compared, and removed. disk: 1, 2 and 4
ranks with model and output on a file system of a fixed bandwidth (slow_disk.py), which tells how many bytes went
through it."""
import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time

import parts

# as root, on fewer cores than ranks, without lines of its own
LAUNCH = ['mpirun', '--allow-run-as-root', '--oversubscribe', '-q']


class Run:
    def __init__(self, a, ranks, args):
        self.process = subprocess.Popen([*LAUNCH, '-n', str(ranks), a.mpi, *args, '-j', '1', '-q'],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.ranks = ranks

    def is_alive(self):
        """Without taking its end away from wait4."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def members(self):
        """Process numbers of the ranks, once all are there."""
        while self.is_alive():
            found = subprocess.run(['pgrep', '-P', str(self.process.pid), '-f', 'kerf-mpi'], capture_output=True)
            if len(found.stdout.split()) == self.ranks:
                return [int(p) for p in found.stdout.split()]
            time.sleep(0.01)
        return []

    def end(self):
        """Exit code, seconds of processor, what was said."""
        said = self.process.stderr.read().decode()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, usage.ru_utime + usage.ru_stime, said


def must(a, ranks, args):
    code, seconds, said = Run(a, ranks, args).end()
    if code:
        raise SystemExit('%d ranks: %d %s' % (ranks, code, said))
    return seconds


def growth(a, model, codec):
    whole, out = os.path.join(a.folder, 'whole'), os.path.join(a.folder, 'out')
    args = ['quantize', model, '-f', codec, '--layout', a.layout]
    parts.run(a.kerf, *args, '-o', whole)

    def alone():
        seconds = parts.run(a.kerf, *args, '-o', out)
        shutil.rmtree(out)
        return seconds

    one, rows = [alone()], []
    for ranks in 1, 2, 4, 8:
        seconds = must(a, ranks, [*args, '-o', out])
        same = parts.same(whole, out)
        shutil.rmtree(out)
        one.append(alone())
        rows.append({'ranks': ranks, 'cpu_s': round(seconds, 2), 'one_process_cpu_s': [round(s, 2) for s in one[-2:]],
                     'efficiency': round(sum(one[-2:]) / 2 / seconds, 3), 'same_bytes': same})
        print(codec, rows[-1], file=sys.stderr)
    shutil.rmtree(whole)
    return {'codec': codec, 'runs': rows}


def same(a, model, codec):
    whole, out = os.path.join(a.folder, 'whole'), os.path.join(a.folder, 'out')
    rows = []
    for layout in a.layout.split(','):
        args = ['quantize', model, '-f', codec, '--layout', layout]
        parts.run(a.kerf, *args, '-o', whole)
        row = {'layout': layout, 'files': len(os.listdir(whole)), 'ranks': {}, 'parts': {}}
        for ranks in 1, 2, 3, 8:
            must(a, ranks, [*args, '-o', out])
            row['ranks'][ranks] = parts.same(whole, out)
            shutil.rmtree(out)
        for n in 3, 8:
            for i in range(n, 0, -1):
                parts.run(a.kerf, *args, '-o', out, '--part', '%d/%d' % (i, n))
            parts.run(a.kerf, 'merge', out)
            row['parts'][n] = parts.same(whole, out)
            shutil.rmtree(out)
        shutil.rmtree(whole)
        rows.append(row)
        print(codec, row, file=sys.stderr)
    return {'codec': codec, 'runs': rows}


def cpu_of(pid):
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
    except OSError:
        return None


def slow(a, model, codec):
    """Seconds of processor by rank, the slow one last."""
    out = os.path.join(a.folder, 'out')
    r = Run(a, 3, ['quantize', model, '-f', codec, '--layout', a.layout, '-o', out])
    pids = r.members()
    used = dict.fromkeys(pids, 0.0)
    while r.is_alive() and not os.path.exists(out):
        os.kill(pids[-1], signal.SIGSTOP)
        time.sleep(0.18)
        os.kill(pids[-1], signal.SIGCONT)
        time.sleep(0.02)
        for p in pids:
            used[p] = cpu_of(p) or used[p]
    code, _, said = r.end()
    if code:
        raise SystemExit('slow: %d %s' % (code, said))
    shutil.rmtree(out)
    return {'codec': codec, 'cpu_s_of_ranks': [round(used[p], 2) for p in pids],
            'share_of_the_slow_one': round(used[pids[-1]] / sum(used.values()), 3)}


def kills(a, model, codec):
    whole, out = os.path.join(a.folder, 'whole'), os.path.join(a.folder, 'out')
    args = ['quantize', model, '-f', codec, '--layout', a.layout, '--resume']
    parts.run(a.kerf, *args, '-o', whole)
    rng = random.Random(2)
    began = time.time()
    must(a, 3, [*args, '-o', out])
    usual = time.time() - began
    shutil.rmtree(out)
    count = dict.fromkeys(('kills', 'before_a_file_was_begun', 'while_files_were_written', 'behind_the_last_rename',
                           'ended_before_the_kill', 'outputs', 'outputs_with_the_bytes_of_one_process'), 0)
    codes = {}

    def compare():
        if os.path.exists(out + '.kerf-parts'):  # killed when only empty folders were left to be removed
            count['behind_the_last_rename'] += 1
            subprocess.run([a.kerf, 'merge', out, '-q'], check=True)
        count['outputs'] += 1
        count['outputs_with_the_bytes_of_one_process'] += parts.same(whole, out)
        shutil.rmtree(out)

    while count['kills'] < a.rounds:
        r = Run(a, rng.choice((2, 3, 4)), [*args, '-o', out])
        pids = r.members()
        time.sleep(rng.uniform(0, usual))
        stage = 'while_files_were_written' if os.path.exists(out + '.kerf-parts') else 'before_a_file_was_begun'
        alive = r.is_alive() and pids
        if alive and not os.path.exists(out):
            try:
                os.kill(rng.choice(pids), signal.SIGKILL)
                count['kills'] += 1
                count[stage] += 1
            except OSError:
                alive = False
        code, _, _ = r.end()
        codes[code] = codes.get(code, 0) + 1
        count['ended_before_the_kill'] += code == 0
        if os.path.exists(out):
            compare()
        elif code == 0:
            raise SystemExit('exit code 0, and no output')
    must(a, 2, [*args, '-o', out])
    compare()
    shutil.rmtree(whole)
    return {'codec': codec, 'seconds_undisturbed': round(usual, 2), **count, 'exit_codes': codes,
            'left_over': sorted(n for n in os.listdir(a.folder) if n != 'model')}


def on_disk(a, args, rate, ranks):
    mount, counts = os.path.join(a.folder, 'disk'), os.path.join(a.folder, 'counts')
    os.makedirs(mount, exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    slow_disk = subprocess.Popen(['/usr/bin/python3', '-B', os.path.join(here, 'slow_disk.py'), a.folder, mount,
                                  str(rate), counts])
    while not os.path.ismount(mount):
        time.sleep(0.05)
    try:
        began = time.time()
        seconds = must(a, ranks, ['quantize', os.path.join(mount, 'model'), *args, '-o', os.path.join(mount, 'out')])
        took = time.time() - began
    finally:
        subprocess.run(['fusermount', '-u', mount], check=True)
        slow_disk.wait()
    with open(counts) as f:
        read, written = map(int, f.read().split())
    os.remove(counts)
    row = {'mb_per_s': rate, 'ranks': ranks, 'seconds': round(took, 1), 'cpu_s': round(seconds, 2),
           'mb_read': round(read / 1e6), 'mb_written': round(written / 1e6),
           'seconds_of_the_disk': round((read + written) / 1e6 / rate, 1)}
    print(row, file=sys.stderr)
    return row


def disk(a, model, codec):
    whole, out = os.path.join(a.folder, 'whole'), os.path.join(a.folder, 'out')
    args = ['-f', codec, '--layout', a.layout]
    parts.run(a.kerf, 'quantize', model, *args, '-o', whole)
    rows = []
    for rate in a.rates.split(','):
        for ranks in 1, 2, 4:
            rows.append(on_disk(a, args, float(rate), ranks))
            rows[-1]['same_bytes'] = parts.same(whole, out)
            shutil.rmtree(out)
    shutil.rmtree(whole)
    os.rmdir(os.path.join(a.folder, 'disk'))
    return {'codec': codec, 'runs': rows}


def main():
    p = argparse.ArgumentParser()
    p.add_argument('kerf')
    p.add_argument('folder')
    p.add_argument('what', choices=('growth', 'same', 'slow', 'kills', 'disk'))
    p.add_argument('-f', default='nvfp4:sweep')
    p.add_argument('--layout', default='modelopt')
    p.add_argument('--gib', type=float, default=1)
    p.add_argument('--rates', default='40,100000')
    p.add_argument('--rounds', type=int, default=100)
    a = p.parse_args()
    a.kerf = os.path.abspath(a.kerf)
    a.mpi = os.path.join(os.path.dirname(a.kerf), 'kerf-mpi')
    model = os.path.join(a.folder, 'model')
    total, torn = parts.make_model(model, a.gib)
    try:
        results = [{'growth': growth, 'same': same, 'slow': slow, 'kills': kills, 'disk': disk}[a.what](a, model, codec)
                   for codec in a.f.split(',')]
    finally:
        shutil.rmtree(model)
    with open('/proc/cpuinfo') as f:
        cpu = next(line.split(':')[1].strip() for line in f if line.startswith('model name'))
    version = subprocess.run(['mpirun', '--version'], capture_output=True, text=True).stdout.split('\n')[0]
    json.dump({'schema': 'kerf.bench-mpi/1', 'command': 'bench/mpi.py KERF FOLDER %s -f %s --layout %s --gib %g'
               % (a.what, a.f, a.layout, a.gib), 'device': '%s, %d processors, %s' % (cpu, os.cpu_count(), platform.system()),
               'mpi': version, 'bytes': total, 'shards': parts.SHARDS, 'groups_in_two_files': torn,
               'results': results}, sys.stdout, indent=1)
    print()


main()

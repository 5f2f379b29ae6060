#!/usr/bin/env python3
"""serving.py - kerf serve, each of whose calls fails: while it starts, answers, runs a job, and ends.

    serving.py BUILD [--all]

An answer is that of an undisturbed server, or an error that says so (kerf.error/1), or the connection ends; only
a reading of the monitor may lack what could not be read. What fails once is over: the same requests are answered
rightly afterwards. A server that ends does so with 4 or 5 and a line that says why, or with 0 at a signal. The
next server with the same folder of outputs goes on: the job's output is then that of an undisturbed run, and
nothing else is left.

Without --all some calls of each kind, spread over the run."""
import argparse
import errno
import http.client
import json
import os
import re
import signal
import sys
import time

from room import Room, Tally
from scenarios import prepare

HARDWARE = {'hardware': 'h200', 'rows': 4096, 'cols': 4096, 'format': 'nvfp4'}
CONFIG = {'model_type': 'llama', 'hidden_size': 64, 'intermediate_size': 64, 'num_hidden_layers': 2,
          'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': 64}
REQUESTS = [('GET', '/', None), ('GET', '/api/v1/version', None), ('GET', '/api/v1/models', None),
            ('GET', '/metrics', None), ('GET', '/api/v1/nvml/status', None), ('POST', '/api/v1/analyze', HARDWARE),
            ('POST', '/api/v1/analyze', {'rows': 'many'}), ('GET', '/api/v1/jobs/77', None),
            ('POST', '/api/v1/predict', {'hardware': 'h200', 'formats': ['nvfp4'], 'config': CONFIG})]
JOB = {'model': 'model', 'format': 'int8', 'output': 'q'}
NUMBERS = re.compile(rb'[0-9]+')  # in counters and readings, which are compared by their words alone
READINGS = '/metrics', '/api/v1/nvml/status'
PASSING = re.compile(rb'kerf-serve-\w+|"pid":[0-9]+')  # names of a moment
ERRORS = {'memory': [errno.ENOMEM], 'thread': [errno.EAGAIN], 'lock': [errno.ENOLCK], 'write': [errno.ENOSPC],
          'socket': [errno.EMFILE, errno.EINTR]}
KINDS = 'memory thread open list read write sync rename stat mkdir unlink close lock socket'.split()
PATIENCE = 60  # seconds for a job that takes a moment, on a machine that is busy
SPREAD = 3  # calls of a kind in the short run
PARTS = 8   # of a kind, for several processors


class Server:
    """A run of kerf serve over in/, which writes to written/."""

    def __init__(self, room, shim=''):
        self.room, self.code, self.err, self.port = room, None, '', None
        self.may_end = 'for=0' not in shim  # where all calls fail from one on, every request would wait for its end
        self.pid = room.start(['serve', '--port', '0', '--json', '--drain', '0', '--interval', '60', '--models', 'in',
                               '--output', 'written'], shim)
        while self.port is None and not self.has_ended():
            with open(room.side + '/out') as f:
                said = re.search(r'"port": (\d+)', f.read())
            self.port = int(said.group(1)) if said else None
            time.sleep(0.002)

    def has_ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def ask(self, method, path, body=None):
        """(status, bytes), or None when there was no whole answer."""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        try:
            c.request(method, path, json.dumps(body) if body else None, {'Content-Type': 'application/json'} if body else {})
            answer = c.getresponse()
            return answer.status, answer.read()
        except TimeoutError:
            return 'no answer in 10 s', b''
        except (OSError, http.client.HTTPException):
            for _ in range(50 * self.may_end):  # one that is ending is not there for others before it is here
                if self.has_ended():
                    break
                time.sleep(0.01)
            return None
        finally:
            c.close()

    def answers(self):
        found = [self.ask(*r) for r in REQUESTS]
        return [a and (a[0], (NUMBERS if b'kerf_http' in a[1] or b'kerf.monitor' in a[1] else PASSING).sub(b'#', a[1]))
                for a in found]

    def run_job(self):
        """The job's end: its state, or None when it is not known."""
        answer = self.ask('POST', '/api/v1/quantize', JOB)
        if not answer or answer[0] != 202:
            return answer
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.ask('GET', '/api/v1/jobs/%d' % json.loads(answer[1])['id']) if answer[0] in (200, 202) else answer
            if not answer or answer[0] != 200:
                return answer
            state = json.loads(answer[1])['state']
            if state not in ('queued', 'running'):
                return state
            time.sleep(0.002)
        return 'no end in %d s' % PATIENCE

    def end(self):
        if not self.has_ended():
            os.kill(self.pid, signal.SIGTERM)
            self.code, _, self.err = self.room.finish(self.pid, 20)
        else:
            with open(self.room.side + '/err') as f:
                self.err = f.read()
        return self.code


class Serving:
    def __init__(self, room):
        self.room, self.before = room, {'written': None}
        room.put(self.before)
        s = Server(room)
        self.right, state, code = s.answers(), s.run_job(), s.end()
        if (state, code) != ('done', 0) or None in self.right:
            raise SystemExit('an undisturbed server: %s, exit code %s: %s' % (state, code, s.err))
        self.after = room.look()
        room.put(self.before)
        path = room.side + '/count'
        s = Server(room, 'count=' + path)
        s.answers(), s.run_job(), s.end()
        with open(path) as f:
            self.calls = {k: int(n) for k, n in (line.split() for line in f)}

    def wrong_answers(self, answers, may_fail):
        wrong = []
        for (_, path, _), right, answer in zip(REQUESTS, self.right, answers):
            is_error = answer is None or isinstance(answer[0], int) and answer[0] >= 400 and b'kerf.error/1' in answer[1]
            is_reading = answer and answer[0] == 200 and path in READINGS
            if answer != right and not is_reading and not (is_error and may_fail):
                wrong.append('%s: %s' % (path, answer and (answer[0], answer[1][:100])))
        return wrong

    def one(self, kind, n, words):
        self.room.put(self.before)
        # The library's own channels between threads are no files that can fail.
        under = 'under=%s ' % self.room.path if kind in ('read', 'write', 'close') else ''
        s = Server(self.room, 'call=%s at=%d %s%s' % (kind, n, under, words))
        wrong, state, is_once = [], None, 'for=0' not in words
        if s.port:
            wrong += self.wrong_answers(s.answers(), True)
            state = s.run_job()
            last = []
            for _ in range(2):  # the call may be one of the first of these
                last = [] if s.has_ended() or not is_once else self.wrong_answers(s.answers(), s.has_ended())
                if not last:
                    break
            wrong += ['the last time: ' + w for w in last]
        if state not in (None, 'done', 'failed') and not isinstance(state, tuple):
            wrong.append('the job: %s' % state)
        was_asked = not s.has_ended()
        code = s.end()
        if code not in ((0,) if was_asked and is_once else (0, 4, 5)):
            wrong.append('exit code %s: %s' % (code, s.err.strip()[:200]))
        if code and not re.match('kerf: ', (s.err.splitlines() or [''])[-1]) and kind != 'write':
            wrong.append('no line of error: ' + s.err[:200])
        return wrong + self.wrong_next(state == 'done')

    def wrong_next(self, is_done):
        """What the next server makes of what is left."""
        s = Server(self.room)
        if s.port is None:
            return ['the next server does not start: exit code %s: %s' % (s.end(), s.err.strip()[:200])]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = s.ask('GET', '/api/v1/jobs')
            if not answer or b'"queued"' not in answer[1] and b'"running"' not in answer[1]:
                break
            time.sleep(0.002)
        state = 'done' if 'written/q' in self.room.look() else s.run_job()
        code, now = s.end(), self.room.look()
        if state != 'done' or code != 0:
            return ['the next server: %s, exit code %s: %s' % (state, code, s.err.strip()[:200])]
        if now == self.after:
            return []
        return ['the next server leaves ' + ' '.join(sorted(p for p in now.keys() | self.after.keys()
                                                            if now.get(p, 0) != self.after.get(p, 0)))]


def run(build, everything=False, kinds=None, part=None):
    tally = Tally('a server')
    with Room(build) as room:
        prepare(room, lambda s: False)
        room.env['LD_LIBRARY_PATH'] = ':'.join(p for p in room.env['LD_LIBRARY_PATH'].split(':')
                                               if not p.endswith('fault/stand_in'))
        code, _, err = room.run(['serve', '--models', 'no-such'])
        if 'without libmicrohttpd' in err:
            return tally.end()
        serving = Serving(room)
        for kind in kinds or KINDS:
            calls = serving.calls[kind]
            step = max(1, -(-calls // SPREAD))
            first, step = (1, 1) if everything else (1 + (step - 1) // 2, step)
            if part is not None:
                first, step = 1 + part, PARTS
            lasting = everything and kind != 'socket'  # without sockets there is no server
            for words in [''] + ['for=0 '] * lasting:
                for error in ERRORS.get(kind, [errno.EIO]):
                    for n in range(first, calls + 1, step):
                        words_of = words + 'what=fail error=%d' % error
                        tally.add('serve, %s %d, %s' % (kind, n, words_of), serving.one(kind, n, words_of))
    return tally.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--all', action='store_true')
    p.add_argument('--kinds', type=lambda text: text.split(','))
    a = p.parse_args()
    tally = run(a.build, a.all, a.kinds)
    sys.exit(0 if tally.report(most=60) or not tally.cases else 1)


if __name__ == '__main__':
    main()

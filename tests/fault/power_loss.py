#!/usr/bin/env python3
"""power_loss.py - the power goes after every call of a run that changes the disk, and the disk has kept
what it had to and any part of the rest: each such state must hold the old output or the new one, and the
next run must succeed, with the same bytes, and clear what is left.

    power_loss.py BUILD [--all] [--only NAME] [--planted]

The shim records the calls (record.c). What a disk must keep: the bytes of a file that was synced, up to
that sync, and the names in a folder that was synced. All else may be there or not: each write and change of
size by itself, each name by itself, but a rename is one step. After exit code 0 nothing but the new output
is right.

--planted: leaves out the syncs of one file or folder after another, then renames before the sync; each must
be noticed."""
import argparse
import copy
import itertools
import os
import sys

from room import Room, Tally
from scenarios import prepare

MOST_SUBSETS = 5  # names of which every subset is tried


# --- the record ------------------------------------------------------------------------------------

def read_record(path, root):
    """Events as tuples; paths as (inode of the folder is found on replay) names below the room."""
    with open(path, 'rb') as f:
        data = f.read()
    events, at = [], 0
    while at < len(data):
        end = data.index(b'\n', at)
        word, _, rest = data[at:end].decode().partition(' ')
        at = end + 1
        if word == 'write':
            inode, offset, n = map(int, rest.split())
            events.append(('write', inode, offset, data[at:at + n]))
            at += n + 1
        elif word == 'size':
            events.append(('size', *map(int, rest.split())))
        elif word == 'cut':
            events.append(('size', int(rest), 0))
        elif word == 'sync':
            events.append(('sync', int(rest)))
        elif word in ('file', 'folder'):
            inode, path = rest.split(' ', 1)
            events.append((word, int(inode), os.path.relpath(path, root)))
        else:
            events.append((word, *(os.path.relpath(p, root) for p in rest.split('\t'))))
    return events


# --- a disk ----------------------------------------------------------------------------------------

class File:
    def __init__(self, data=b''):
        self.kept, self.pending = data, []

    def bytes(self, applied):
        """The content when these of the pending changes have reached the disk."""
        data = bytearray(self.kept)
        for change in applied:
            if change[0] == 'size':
                data = data[:change[1]] + bytes(max(0, change[1] - len(data)))
            else:
                _, at, part = change
                data += bytes(max(0, at - len(data)))
                data[at:at + len(part)] = part
        return bytes(data)


class Disk:
    """Files and folders by number (an inode may be used again: `now` leads from it to the number)."""

    def __init__(self):
        self.thing, self.now = [], {}  # thing: File, or {name: number} of what a folder must keep
        self.live = []                 # {name: number} as a program sees it; None for a file
        self.pending = []              # name changes: [(folder, name, number or None), ...] each one step
        self.root = self.add_folder(0)

    def add(self, inode, thing, live):
        self.thing.append(thing)
        self.live.append(live)
        self.now[inode] = len(self.thing) - 1
        return self.now[inode]

    def add_file(self, inode, data=b''):
        return self.add(inode, File(data), None)

    def add_folder(self, inode):
        return self.add(inode, {}, {})

    def place(self, path):
        """(number of the folder, name) of a path below the root."""
        at = self.root
        *folders, name = path.split('/')
        for f in folders:
            at = self.live[at][f]
        return at, name

    def change(self, *names):
        for folder, name, number in names:
            if number is None:
                self.live[folder].pop(name, None)
            else:
                self.live[folder][name] = number
        self.pending.append(names)

    def follow(self, event):
        word = event[0]
        if word in ('file', 'folder'):
            number = self.add_file(event[1]) if word == 'file' else self.add_folder(event[1])
            self.change((*self.place(event[2]), number))
        elif word == 'write':
            self.thing[self.now[event[1]]].pending.append(('write', *event[2:]))
        elif word == 'size':
            self.thing[self.now[event[1]]].pending.append(event[0:1] + event[2:])
        elif word == 'sync':
            self.sync(self.now[event[1]])
        elif word == 'unlink':
            self.change((*self.place(event[1]), None))
        else:
            (a, x), (b, y) = self.place(event[1]), self.place(event[2])
            moved, there = self.live[a][x], self.live[b].get(y)
            self.change((a, x, there if word == 'exchange' else None), (b, y, moved))

    def sync(self, number):
        thing = self.thing[number]
        if isinstance(thing, File):
            thing.kept, thing.pending = thing.bytes(thing.pending), []
            return
        rest = []
        for step in self.pending:
            if any(folder == number for folder, _, _ in step):
                keep(self.thing, step)
            else:
                rest.append(step)
        self.pending = rest

    # --- what may be on it ---

    def name_choices(self):
        n = len(self.pending)
        if n <= MOST_SUBSETS:
            for size in range(n + 1):
                yield from itertools.combinations(range(n), size)
            return
        for i in range(n + 1):
            yield tuple(range(i))
        for i in range(n):
            yield (i,)
            yield tuple(k for k in range(n) if k != i)

    def data_choices(self, is_thorough):
        """For each file with changes on their way, which of them have arrived."""
        waiting = {i: t.pending for i, t in enumerate(self.thing) if isinstance(t, File) and t.pending}
        none, every = {i: () for i in waiting}, dict(waiting)
        yield none
        yield every
        yield {i: p[:len(p) // 2] for i, p in waiting.items()}
        for i, p in waiting.items() if is_thorough else ():
            yield {**every, i: ()}
            yield {**none, i: p}
            yield {**every, i: p[1:]}
            yield {**every, i: p[:-1]}
            yield {**every, i: [x for x in p if x[0] == 'size']}

    def state(self, names, data):
        """{path: bytes, None for a folder} with these changes of names and data."""
        folder = {i: dict(t) for i, t in enumerate(self.thing) if isinstance(t, dict)}
        for i in names:
            keep(folder, self.pending[i])
        found, open_now = {}, set()

        def walk(number, path):
            for name, n in folder[number].items():
                where = path + name
                if isinstance(self.thing[n], File):
                    found[where] = self.thing[n].bytes(data.get(n, ()))
                elif n not in open_now:
                    found[where] = None
                    open_now.add(n)
                    walk(n, where + '/')
                    open_now.discard(n)
        walk(self.root, '')
        return found

    def states(self, is_thorough):
        for names in self.name_choices():
            whole = len(names) == len(self.pending)
            for data in self.data_choices(is_thorough or whole):
                yield self.state(names, data)


def keep(folders, step):
    for folder, name, number in step:
        if number is None:
            folders[folder].pop(name, None)
        else:
            folders[folder][name] = number


def disk_of(room, before):
    """The disk as the run finds it: all that is there was kept."""
    disk = Disk()
    disk.now[os.stat(room.path).st_ino] = disk.root
    for path in sorted(before):
        inode = os.lstat(path).st_ino
        number = disk.add_folder(inode) if before[path] is None else disk.add_file(inode, before[path])
        folder, name = disk.place(path)
        disk.live[folder][name] = disk.thing[folder][name] = number
    return disk


# --- the test --------------------------------------------------------------------------------------

def part_of(files, top):
    return {p: d for p, d in files.items() if p == top or p.startswith(top + '/')}


class Loss:
    def __init__(self, room, s):
        self.room, self.s, self.seen = room, s, {}
        room.put(s.before)
        self.start = os.stat('.').st_ino
        self.disk = lambda: disk_of(room, s.before)
        log = room.side + '/record'
        self.first = self.disk()
        code, _, err = room.run(s.args, '%s under=%s record=%s' % (s.shim, room.path, log))
        if code != s.code:
            raise SystemExit('%s: exit code %s: %s' % (s.name, code, err))
        self.after = room.look()
        self.events = read_record(log, room.path)

    def fresh(self):
        """The disk before the run, with the inodes of the recorded one."""
        return copy.deepcopy(self.first)

    def wrong_state(self, state, is_over):
        """Whether the output is neither the old nor the new one, or anything stands there besides."""
        tops = {p.split('/')[0] for p in self.after} | {p.split('/')[0] for p in self.s.before}
        for top in tops:
            if top == self.s.stage and not is_over:
                top = self.s.writes
            now, new, old = (part_of(x, top) for x in (state, self.after, self.s.before))
            if now != new and (is_over or now != old):
                return '%s is %s' % (top, 'not the new one' if is_over else 'neither the old nor the new one')
        left = {p.split('/')[0] for p in state} - tops
        if any('.kerf-tmp-' not in p for p in left):
            return 'left: ' + ' '.join(sorted(left))
        return None

    def wrong_next(self, state):
        """What the next run makes of it."""
        self.room.put(state)
        code, _, err = self.room.run(self.s.again)
        if code != self.s.code and not (self.s.done and self.s.done in err):
            return 'the next run ends with %s: %s' % (code, err.strip()[:200])
        differ = [p for p in self.room.look() if p not in self.after] + \
                 [p for p in self.after if self.room.look().get(p, 0) != self.after[p]]
        return 'after the next run: ' + ' '.join(differ) if differ else None

    def replay(self, events, tally, is_thorough, runs_next=True):
        disk = self.fresh()
        for i in range(len(events) + 1):
            is_over = i == len(events)
            for state in disk.states(is_thorough):
                key = (is_over, hash(frozenset(state.items())))
                if key in self.seen:
                    continue
                wrong = self.wrong_state(state, is_over)
                if not wrong and runs_next and (not is_over, key[1]) not in self.seen:
                    wrong = self.wrong_next(state)
                self.seen[key] = 1
                tally.add('%s, after %d of %d calls' % (self.s.name, i, len(events)), [wrong] if wrong else [])
            if not is_over:
                disk.follow(events[i])

    # --- planted faults ---

    def is_noticed(self, events):
        self.seen = {}
        tally = Tally('')
        self.replay(events, tally, False, runs_next=bool(self.s.stage))  # what waits is for the next run
        return bool(tally.failed)

    def plant(self, tally):
        names = {self.start: '.'}
        for e in self.events:
            if e[0] in ('file', 'folder'):
                names[e[1]] = e[2]
        synced = {e[1] for e in self.events if e[0] == 'sync'}
        for inode in sorted(synced):
            name = names.get(inode, '?')
            if '.journal' in name:  # whoever reads it compares the bytes that it speaks of
                continue
            without = [e for e in self.events if e != ('sync', inode)]
            tally.add('%s without the syncs of %s' % (self.s.name, name),
                      [] if self.is_noticed(without) else ['not noticed'])
        last = max(i for i, e in enumerate(self.events) if e[0] in ('rename', 'exchange'))
        made = max(i for i, e in enumerate(self.events[:last]) if e[-1] == self.events[last][1])
        first = min(i for i, e in enumerate(self.events) if e[0] == 'sync' and i > made)
        early = self.events[:first] + [self.events[last]] + \
            [moved(e, self.events[last]) for e in self.events[first:last]] + self.events[last + 1:]
        tally.add(self.s.name + ' renamed before the sync', [] if self.is_noticed(early) else ['not noticed'])


def moved(event, rename):
    """The same call on a path that has its new name already."""
    _, a, b = rename
    return tuple(b + x[len(a):] if isinstance(x, str) and (x == a or x.startswith(a + '/')) else x for x in event)


def run(build, everything=False, only=None, planted=False):
    tally = Tally('planted faults of syncs' if planted else 'loss of power')
    with Room(build) as room:
        for s in prepare(room, lambda s: s.writes and (s.name == only if only else everything or s.gate)):
            loss = Loss(room, s)
            if planted:
                loss.plant(tally)
            else:
                loss.replay(loss.events, tally, everything)
    return tally.end()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--all', action='store_true')
    p.add_argument('--only')
    p.add_argument('--planted', action='store_true')
    a = p.parse_args()
    tally = run(a.build, a.all, a.only, a.planted)
    sys.exit(0 if tally.report() else 1)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""slow_disk.py - a file system of one fixed bandwidth for all who use it: a folder, seen through FUSE, whose reads
and writes wait for their turn.

    slow_disk.py FOLDER MOUNT MB_PER_S COUNTS      until it is unmounted (fusermount -u MOUNT)

COUNTS: a file that holds the bytes read and written so far. Root, and Debian's python3-fusepy."""
import os
import sys
import threading
import time

import fusepy


class SlowDisk(fusepy.Operations):
    def __init__(self, root, rate, counts):
        self.root, self.rate, self.counts = root, rate, counts
        self.free, self.turn, self.bytes = time.monotonic(), threading.Lock(), {'read': 0, 'written': 0}

    def wait(self, what, n):
        with self.turn:
            self.free = max(self.free, time.monotonic()) + n / self.rate
            self.bytes[what] += n
            until = self.free
        time.sleep(max(0, until - time.monotonic()))

    def path(self, path):
        return self.root + path

    def getattr(self, path, fh=None):
        st = os.lstat(self.path(path))
        names = 'atime', 'ctime', 'mtime', 'gid', 'mode', 'nlink', 'size', 'uid'
        return {'st_' + n: getattr(st, 'st_' + n) for n in names}

    def readdir(self, path, fh):
        return ['.', '..', *os.listdir(self.path(path))]

    def read(self, path, size, offset, fh):
        data = os.pread(fh, size, offset)
        self.wait('read', len(data))
        return data

    def write(self, path, data, offset, fh):
        self.wait('written', len(data))
        return os.pwrite(fh, data, offset)

    def open(self, path, flags):
        return os.open(self.path(path), flags & ~os.O_APPEND)

    def create(self, path, mode, fi=None):
        return os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def truncate(self, path, length, fh=None):
        os.truncate(self.path(path), length)

    def release(self, path, fh):
        os.close(fh)
        with open(self.counts, 'w') as f:
            f.write('%d %d\n' % (self.bytes['read'], self.bytes['written']))

    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    def fsyncdir(self, path, datasync, fh):
        return 0

    def rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def mkdir(self, path, mode):
        os.mkdir(self.path(path), mode)

    def rmdir(self, path):
        os.rmdir(self.path(path))

    def unlink(self, path):
        os.unlink(self.path(path))

    def chmod(self, path, mode):
        os.chmod(self.path(path), mode)

    def utimens(self, path, times=None):
        os.utime(self.path(path), times)

    def statfs(self, path):
        v = os.statvfs(self.path(path))
        return {n: getattr(v, n) for n in ('f_bavail', 'f_bfree', 'f_blocks', 'f_bsize', 'f_favail', 'f_ffree',
                                           'f_files', 'f_flag', 'f_frsize', 'f_namemax')}


folder, mount, rate, counts = sys.argv[1:]
fusepy.FUSE(SlowDisk(os.path.abspath(folder), float(rate) * 1e6, os.path.abspath(counts)), mount, foreground=True,
            big_writes=True, max_read=131072)

#!/usr/bin/env python3
"""abi.py - the interface of libkerf as abi.txt has it: every declaration of the public headers, and every
name that libkerf.so exports.

  abi.py CC LIBKERF_SO            exit 1: something was taken away or changed, or kerf.h lacks a header
  abi.py CC LIBKERF_SO --update   writes abi.txt

What is new is told and does not fail: an addition breaks no program. What changes on purpose raises the
version as cli/abi.md says, and abi.txt is written again. With abidiff of abigail-tools, two builds can be
compared more closely: abidiff OLD/libkerf.so NEW/libkerf.so."""
import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
FOLDERS = [os.path.join(ROOT, room, 'include') for room in ('codecs', 'kernels', 'advisor')]
LIST = os.path.join(ROOT, 'tests/build/abi.txt')


def headers():
    return {name for f in FOLDERS for name in os.listdir(os.path.join(f, 'kerf')) if name.endswith('.h')}


def declarations(cc):
    """What is left of kerf's own headers after the preprocessor, a declaration per line."""
    out = subprocess.run([cc, '-E', '-std=c11', '-x', 'c', *('-I' + f for f in FOLDERS), '-'], text=True,
                         input='#include <kerf/kerf.h>\n', check=True, stdout=subprocess.PIPE).stdout
    text, inside = [], False
    for line in out.splitlines():
        place = re.match(r'# \d+ "([^"]*)"', line)
        if place:
            inside = '/include/kerf/' in place.group(1)
        elif inside:
            text.append(line)
    attribute = r'__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)'
    flat = re.sub(r'\s+', ' ', re.sub(attribute, '', ' '.join(text)))
    depth, start = 0, 0
    for i, c in enumerate(flat):
        depth += (c == '{') - (c == '}')
        inline = c == '}' and depth == 0 and re.match(r' *(static|inline)\b', flat[start:])
        if depth == 0 and (c == ';' or inline):
            yield flat[start:i + 1].strip()
            start = i + 1


def exported(library):
    out = subprocess.run(['nm', '-D', '--defined-only', '--format=posix', library], text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    return [line.split('@')[0].split()[0] for line in out.splitlines() if line.startswith('kerf_')]


def main(cc, library, update=None):
    with open(os.path.join(FOLDERS[2], 'kerf/kerf.h')) as f:
        included = set(re.findall(r'^#include <kerf/(\w+\.h)>', f.read(), re.M)) | {'kerf.h'}
    missing = headers() - included
    now = sorted(set(declarations(cc))) + sorted('exports ' + name for name in set(exported(library)))
    if update:
        with open(LIST, 'w') as f:
            f.write('\n'.join(now) + '\n')
        return 0
    with open(LIST) as f:
        promised = f.read().splitlines()
    gone = [line for line in promised if line not in set(now)]
    new = [line for line in now if line not in set(promised)]
    for line in gone:
        print('gone or changed:', line[:300])
    for name in sorted(missing):
        print('kerf.h does not include', name)
    print(f'{len(now)} declarations and names, {len(gone)} gone or changed, {len(new)} new')
    if gone:
        print('Meant so? cli/abi.md says what that does to the version; then abi.py CC LIBKERF_SO --update')
    return bool(gone or missing)


if __name__ == '__main__':
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

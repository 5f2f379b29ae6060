#!/usr/bin/env python3
"""abi.py - the interface of libkerf as abi.txt has it: every declaration of the public headers, and every
name that libkerf.so exports.

  abi.py CC LIBKERF_SO            exit 1: something was taken away or changed, or kerf.h lacks a header
  abi.py CC LIBKERF_SO --update   writes abi.txt
  abi.py CC LIBKERF_SO --faults   plants a fault after the other, each of which must be noticed

What is new is told and does not fail: an addition breaks no program. What changes on purpose raises the
version as cli/abi.md says, and abi.txt is written again. With abidiff of abigail-tools, two builds can be
compared more closely: abidiff OLD/libkerf.so NEW/libkerf.so."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
FOLDERS = [os.path.join(ROOT, room, 'include') for room in ('codecs', 'kernels', 'advisor')]
LIST = os.path.join(ROOT, 'tests/build/abi.txt')


def headers(folders):
    return {name for f in folders for name in os.listdir(os.path.join(f, 'kerf')) if name.endswith('.h')}


def declarations(cc, folders):
    """What is left of kerf's own headers after the preprocessor, a declaration per line."""
    out = subprocess.run([cc, '-E', '-std=c11', '-x', 'c', *('-I' + f for f in folders), '-'], text=True,
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


def differences(cc, names, folders):
    """What stands here, and of that and of abi.txt: what is gone or changed, headers left out, what is new."""
    with open(os.path.join(folders[2], 'kerf/kerf.h')) as f:
        included = set(re.findall(r'^#include <kerf/(\w+\.h)>', f.read(), re.M)) | {'kerf.h'}
    now = sorted(set(declarations(cc, folders))) + sorted('exports ' + name for name in set(names))
    with open(LIST) as f:
        promised = f.read().splitlines()
    return (now, [line for line in promised if line not in set(now)], sorted(headers(folders) - included),
            [line for line in now if line not in set(promised)])


# Header, what stands there, what is planted in its place, and what the complaint must hold.
FAULTS = [
    ('codec.h', 'KERF_API uint32_t kerf_version(void);', '', 'uint32_t kerf_version(void);'),
    ('codec.h', 'uint32_t kerf_version(void);', 'uint32_t kerf_version(int);', 'uint32_t kerf_version(void);'),
    ('codec.h', 'KERF_E_EXISTS = -10', 'KERF_E_EXISTS = -11', 'KERF_E_EXISTS = -10'),
    ('verify.h', 'typedef struct kerf_verify_row {', 'typedef struct kerf_verify_row { int planted;',
     'typedef struct kerf_verify_row {'),
    ('kerf.h', '#include <kerf/recipe.h>', '', 'recipe.h'),
]


def faults(cc, library):
    names = exported(library)
    _, gone, missing, _ = differences(cc, names, FOLDERS)
    before, status = set(gone + missing), 0
    planted = [(edit[:3], edit[3], names) for edit in FAULTS]
    planted.append((None, 'exports kerf_encode', [n for n in names if n != 'kerf_encode']))
    for edit, says, exports in planted:
        with tempfile.TemporaryDirectory() as work:
            folders = [shutil.copytree(f, os.path.join(work, str(i), 'include')) for i, f in enumerate(FOLDERS)]
            if edit:
                path = next(p for p in (os.path.join(f, 'kerf', edit[0]) for f in folders) if os.path.exists(p))
                with open(path) as f:
                    text = f.read()
                if edit[1] not in text:
                    sys.exit(f'{edit[0]} has no {edit[1]}: what is planted needs another place')
                with open(path, 'w') as f:
                    f.write(text.replace(edit[1], edit[2], 1))
            _, gone, missing, _ = differences(cc, exports, folders)
            if not any(says in line for line in set(gone + missing) - before):
                print('not noticed:', edit or says)
                status = 1
    print(f'{len(planted)} planted faults' + ('' if status else ', each found'))
    return status


def main(cc, library, mode=None):
    if mode == '--faults':
        return faults(cc, library)
    now, gone, missing, new = differences(cc, exported(library), FOLDERS)
    if mode == '--update':
        with open(LIST, 'w') as f:
            f.write('\n'.join(now) + '\n')
        return 0
    for line in gone:
        print('gone or changed:', line[:300])
    for name in missing:
        print('kerf.h does not include', name)
    print(f'{len(now)} declarations and names, {len(gone)} gone or changed, {len(new)} new')
    if gone:
        print('Meant so? cli/abi.md says what that does to the version; then abi.py CC LIBKERF_SO --update')
    return bool(gone or missing)


if __name__ == '__main__':
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ['--update'], ['--faults']):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

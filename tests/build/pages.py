#!/usr/bin/env python3
"""pages.py - what README and the pages beside the rooms show is so.

  pages.py KERF

Every fenced block of `console` is run in a folder of its own, line by line: what a command prints must be
what stands below it, where `...` is any text, or any lines. (The scores that one advise has measured are
kept for the next.) Names of verbs and options in other examples must exist, links of every page of the tree
must lead to a file (and a heading), a page must say for whom it is, README's tables must be those of
bench/results, and README must be short."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
KERF = os.path.realpath(sys.argv[1])
PAGES = ['README.md', 'codecs/formats.md', 'kernels/products.md', 'advisor/advice.md', 'cli/reference.md',
         'cli/parts.md', 'cli/ci.md', 'cli/abi.md', 'bench/speed.md', 'bench/README.md', 'CONTRIBUTING.md']
FOR_WHOM = ['codecs/formats.md', 'kernels/products.md', 'advisor/advice.md', 'cli/reference.md', 'bench/speed.md',
            'cli/parts.md', 'cli/abi.md']
README_BYTES = 9 * 1024
failures = 0


def complain(*words):
    global failures
    failures += 1
    print(*words)


def read(page):
    with open(os.path.join(ROOT, page)) as f:
        return f.read()


def pattern(lines):
    """The lines as a regular expression: `...` alone stands for any lines, in a line for any text."""
    parts = []
    for line in lines:
        if line == '...':
            parts.append(r'(?:.*\n)*?')
        else:
            parts.append('.*'.join(re.escape(p.rstrip()) for p in line.split('...')) + r' *\n')
    return re.compile(''.join(parts) + r'\Z')


def run_blocks(page, folder):
    commands = 0
    for block in re.findall(r'^```console\n(.*?)^```', read(page), re.S | re.M):
        for shown in re.split(r'^\$ ', block, flags=re.M)[1:]:
            line, *expected = shown.rstrip('\n').split('\n')
            words = line.split()
            if words[0] != 'kerf':
                complain(f'{page}: not a command of kerf: {line}')
                continue
            commands += 1
            if words[1] == 'advise':
                words += ['--cache', '.scores']
            done = subprocess.run([KERF] + words[1:], cwd=folder, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = '\n'.join(x.rstrip() for x in done.stdout.splitlines()) + '\n' if done.stdout else ''
            if done.returncode != 0 or not pattern(expected).match(said):
                complain(f'{page}: {line}: exit code {done.returncode}, and it says\n{said}')
    return commands


def options_of(verb, known={}):
    if verb not in known:
        done = subprocess.run([KERF, 'help', verb], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        known[verb] = None if done.returncode else set(re.findall(r'--?[a-zA-Z0-9][a-z0-9-]*', done.stdout))
    return known[verb]


def check_examples(page):
    """Each example of the command names a verb and options that are there."""
    for line in re.findall(r'^(?:    |\$ )kerf ([a-z].*)$', read(page), re.M) + \
            re.findall(r'`kerf ([a-z][^`]*)`', read(page).replace('\n', ' ')):
        verb, _, rest = line.split('#')[0].partition(' ')
        options = options_of(verb)
        if options is None:
            complain(f'{page}: no such verb: kerf {line}')
            continue
        for option in re.findall(r'(?:^|\s)(--?[a-zA-Z][a-z0-9-]*)', rest):
            if option not in options:
                complain(f'{page}: kerf {verb} has no {option}')


def anchors(text):
    heads = re.findall(r'^#+ (.*)$', text, re.M)
    return {re.sub(r'[^a-z0-9 _-]', '', h.lower()).replace(' ', '-') for h in heads}


def check_links(page):
    for link in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'```.*?```', '', read(page), flags=re.S)):
        if re.match(r'[a-z]+:', link):
            continue
        path, _, anchor = link.partition('#')
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(ROOT, path)):
            complain(f'{page}: leads nowhere: {link}')
        elif anchor and anchor not in anchors(read(path)):
            complain(f'{page}: no such heading: {link}')


def check_families(page):
    """A page that counts the families of models counts those of their table."""
    rows = len(re.findall(r'^\| `', read('codecs/families.md'), re.M))
    for number in re.findall(r'(\d{3}) families', read(page)):
        if int(number) != rows:
            complain(f'{page}: {number} families, and codecs/families.md has {rows}')


def pages_of_the_tree():
    """All pages but those of build folders."""
    found = []
    for folder, below, files in os.walk(ROOT):
        below[:] = [b for b in below if not b.startswith('.') and not (folder == ROOT and b.startswith('build'))]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f.endswith('.md')]
    return found


def main():
    size = len(read('README.md').encode())
    if size > README_BYTES:
        complain(f'README.md has {size} bytes, more than {README_BYTES}')
    folder = tempfile.mkdtemp()
    commands = 0
    linked = pages_of_the_tree()
    try:
        os.symlink(os.path.join(ROOT, 'tests'), os.path.join(folder, 'tests'))
        for page in linked:
            check_links(page)
            check_families(page)
        for page in PAGES:
            check_examples(page)
            commands += run_blocks(page, folder)
        for page in FOR_WHOM:
            if not re.search(r'\bFor (whoever|people|two readers|programs|those)', read(page)[:600]):
                complain(f'{page}: does not open with whom it is for')
    finally:
        shutil.rmtree(folder)
    done = subprocess.run([os.path.join(ROOT, 'bench/front'), '--check'], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        complain(done.stdout)
    print(f'{len(PAGES)} pages, links of {len(linked)}, {commands} commands; README has {size} bytes')
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())

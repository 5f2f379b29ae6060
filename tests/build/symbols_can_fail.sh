#!/usr/bin/env bash
# symbols_can_fail.sh - symbols.sh notices: compiles one fault after the other into a copy of the
# archive, and a shared library that exports a foreign name.
#
#   symbols_can_fail.sh LIBKERF_SO LIBKERF_A     CC chooses the compiler
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
so=$1 archive=$2 cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0 count=0
bash "$here/symbols.sh" "$so" "$archive" >/dev/null || { echo "the libraries themselves fail" && exit 1; }

# noticed FAULT NAME SO ARCHIVE: symbols.sh now fails and names it.
noticed() {
    local output
    count=$((count + 1))
    if output=$(bash "$here/symbols.sh" "$3" "$4"); then
        echo "not noticed: $1" && status=1
    elif ! grep -qwF -- "$2" <<<"$output"; then
        echo "$1: expected '$2', got: $output" && status=1
    fi
}

# line of C | the name that must be in the complaint
while IFS='|' read -r line name; do
    name=${name//[[:space:]]/}
    printf '#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <assert.h>\n%s\n' "$line" >"$work/plant.c"
    "$cc" -std=c11 -O1 -c "$work/plant.c" -o "$work/plant.o"
    cp "$archive" "$work/libkerf.a"
    ar q "$work/libkerf.a" "$work/plant.o" 2>/dev/null
    noticed "$line" "$name" "$so" "$work/libkerf.a"
done <<'END'
int helper(void) { return 1; }                              | helper
int counter;                                                | counter
int kf_plant(int x) { printf("%d", x); return 0; }          | printf
void kf_plant(void) { fputs("x", stderr); }                 | stderr
int kf_plant(void) { return fflush(stdout); }               | stdout
void kf_plant(void) { perror("x"); }                        | perror
void kf_plant(void) { exit(1); }                            | exit
void kf_plant(void) { abort(); }                            | abort
void kf_plant(int x) { assert(x); }                         | __assert_fail
char *kf_plant(void) { return getenv("HOME"); }             | getenv
END

echo 'int kerf_encode(void) { return 0; } int other(void) { return 0; }' >"$work/plant.c"
"$cc" -shared -fPIC "$work/plant.c" -o "$work/libplant.so"
noticed "an export without prefix" other "$work/libplant.so" "$archive"

[ $status -eq 0 ] && echo "$count planted faults, each found"
exit $status

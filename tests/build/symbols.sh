#!/usr/bin/env bash
# symbols.sh - libkerf takes no name from others: the shared library exports kerf_* alone, the
# archive defines kerf_* and kf_* alone, and neither pulls in what a library must not call.
#
#   symbols.sh LIBKERF_SO LIBKERF_A
set -euo pipefail
status=0

complain() {
    [ -z "$2" ] || { printf '%s:\n%s\n' "$1" "$2" && status=1; }
}

exported=$(nm -D --defined-only --format=posix "$1" | awk '{ sub(/@.*/, "", $1); print $1 }')
grep -q '^kerf_encode$' <<<"$exported" || { echo "kerf_encode is not exported by $1" && status=1; }
# KERF_0 is the version node of cmake/kerf.map.
complain "exported by $1" "$(grep -v -e '^kerf_' -e '^KERF_0$' <<<"$exported" || true)"

# nm of the archive, without what nvcc makes: its names are hashes, and its stubs call exit().
list_archive() {
    nm -g "$1" --format=posix "$2" 2>/dev/null |
        awk '/^[^ ]*\[.*\]:$/ { ours = !/\[(gemv_)?row_.*\.cu\.o\]/ } ours && NF > 1 { print $1 }'
}

# gcc makes one such lock for every named OpenMP section.
defined=$(list_archive --defined-only "$2")
grep -q '^kf_fail$' <<<"$defined" || { echo "kf_fail is not in $2" && status=1; }
complain "defined by $2" "$(grep -vE '^(kerf_|kf_|\.gomp_critical_user_kf_)' <<<"$defined" || true)"

# Nothing in a library ends the program, prints on its own, reads the environment, or is unsafe with
# threads. (Under _FORTIFY_SOURCE printf is __printf_chk.)
never='abort|exit|_exit|quick_exit|__assert_fail|system|rand|strtok|gets|strcpy|strcat|sprintf'
never="$never|stdin|stdout|stderr|printf|vprintf|puts|putchar|perror"
never="$never|setenv|putenv|getenv|secure_getenv|environ"
called=$(list_archive --undefined-only "$2")
complain "called by $2" "$(grep -xE "(__)?($never)(_chk)?" <<<"$called" | sort -u || true)"

[ $status -eq 0 ] && echo "$(wc -l <<<"$exported") exported names, all kerf_*"
exit $status

# lib.sh - what the tests of the command share: a scratch folder, checks that count, and a result.
#
# Sourced by every test here with
#   KERF   the command        TOOLS  folder of json_get, make_model, make_malformed, peak_memory, spoil
#   DATA   tests/data
# A test runs checks and ends with `finish`. Exit code 77: skipped.
# shellcheck shell=bash
set -uo pipefail

: "${KERF:?path of the command}" "${TOOLS:?folder of the test tools}" "${DATA:?tests/data}"
# shellcheck disable=SC2034 # the tests use it
model=$DATA/tiny-llama
checks=0 failures=0

tmp=$(mktemp -d "${TMPDIR:-/tmp}/kerf-cli.XXXXXX") || exit 70
cleanup() { rm -rf "$tmp"; }
trap cleanup EXIT

note_failure() {
    failures=$((failures + 1))
    [ "$failures" -gt 20 ] || printf 'FAIL: %s\n' "$*" # the first ones tell
}

# in_turn: whether a long loop does this round: all of them, or every KERF_TEST_EVERY-th. Under a
# sanitizer, which is ten times slower and looks for faults of memory, rounds that go the same way
# with other numbers are left to the optimized build.
rounds=0
in_turn() {
    rounds=$((rounds + 1))
    [ $((rounds % ${KERF_TEST_EVERY:-1})) -eq 0 ]
}

# check NAME COMMAND...: the command must succeed.
check() {
    local name=$1
    shift
    checks=$((checks + 1))
    "$@" || note_failure "$name"
}

# run ARGS...: runs kerf; leaves its exit code, output and error in $code, $tmp/out, $tmp/err.
run() {
    code=0
    "$KERF" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
}

# expect CODE ARGS...: runs kerf, which must end with this code; an error is one line that begins
# with "kerf: ". The overview of a bare `kerf` is not an error.
expect() {
    local wanted=$1 lines
    shift
    run "$@"
    checks=$((checks + 1))
    if [ "$code" -ne "$wanted" ]; then
        note_failure "kerf $*: exit code $code instead of $wanted: $(head -n 3 "$tmp/err")"
    elif [ "$wanted" -gt 1 ]; then
        lines=$(wc -l <"$tmp/err")
        if [ "$lines" -ne 1 ] || ! grep -q '^kerf: ' "$tmp/err"; then
            note_failure "kerf $*: expected one line of error, got $lines: $(cat "$tmp/err")"
        fi
    fi
}

# measure NAME ARGS...: runs kerf, which must succeed with less than $limit_kib resident and, where
# that is set, $limit_s seconds of processors. Prints both.
measure() {
    local name=$1 peak took TIMEFORMAT='%U %S' # of processors: others may be at work beside it
    shift
    code=0
    { time "$TOOLS/peak_memory" "$tmp/peak" "$KERF" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?; } 2>"$tmp/took"
    peak=$(cat "$tmp/peak") took=$(awk '{ printf "%d", $1 + $2 + 0.5 }' "$tmp/took")
    echo "$name: $((peak / 1024)) MiB resident, $took s of processors"
    check "$name succeeds: $(head -n 1 "$tmp/err")" test "$code" -eq 0
    check "$name stays under $((limit_kib / 1024)) MiB" test "$peak" -lt "${limit_kib:?}"
    [ -z "${limit_s:-}" ] || check "$name takes less than $limit_s s" test "$took" -lt "$limit_s"
}

# error_says PATTERN: the last error matches.
error_says() {
    checks=$((checks + 1))
    grep -q -e "$1" "$tmp/err" || note_failure "expected '$1' in: $(cat "$tmp/err")"
}

# output_says PATTERN: the last output matches.
output_says() {
    checks=$((checks + 1))
    grep -q -e "$1" "$tmp/out" || note_failure "expected '$1' in: $(head -n 20 "$tmp/out")"
}

# json PATH: values at PATH of the last output; several for a '*' in it.
json() { "$TOOLS/json_get" "$1" <"$tmp/out"; }

# json_is PATH VALUE: the last output is a document that holds VALUE there.
json_is() {
    local got
    checks=$((checks + 1))
    got=$(json "$1") || note_failure "no JSON with $1: $(head -c 300 "$tmp/out")"
    [ "$got" = "$2" ] || note_failure "$1 is '$got', not '$2'"
}

# row_is LIST NAME KEY VALUE: in a list of the last output, the row of this name holds VALUE.
row_is() {
    local got
    checks=$((checks + 1))
    got=$(paste <(json "$1.*.name") <(json "$1.*.$3") |
        awk -F '\t' -v name="$2" '$1 == name { print $2 }')
    [ "$got" = "$4" ] || note_failure "$3 of $2 is '$got', not '$4'"
}

absent() {
    checks=$((checks + 1))
    [ ! -e "$1" ] || note_failure "$1 exists"
}

same_file() {
    checks=$((checks + 1))
    cmp -s "$1" "$2" || note_failure "$1 and $2 differ"
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ] && [ "$checks" -gt 0 ]
    exit
}

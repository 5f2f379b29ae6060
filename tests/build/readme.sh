#!/usr/bin/env bash
# readme.sh - the table of formats in README.md is what `kerf formats` says.
#
#   bash tests/build/readme.sh KERF [--update]
#
#   KERF      the command
#   --update  puts the table into README.md instead of comparing
set -euo pipefail
kerf=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

table() {
    "$kerf" formats --json | jq -r '
        "| format | bpw | element | group | scale | encoders, default first | |",
        "|---|---|---|---|---|---|---|",
        (.formats[] | "| `\(.name)` | \(.bpw_4096x4096 * 1000 | round / 1000) | \(.element) | \(.group) "
            + "| \(.scale) | \([.encoders[].name] | join(", ")) | \(.note) |")'
}

# README.md with the table in its place.
fresh() {
    awk -v table="$(table)" '
        /<!-- formats:begin -->/ { print; print table; skip = 1 }
        /<!-- formats:end -->/ { skip = 0 }
        !skip { print }' README.md
}

if [ "${2:-}" = --update ]; then
    text=$(fresh)
    printf '%s\n' "$text" >README.md
elif ! diff -u README.md <(fresh); then
    echo "README.md is behind formats.def: bash tests/build/readme.sh KERF --update" >&2
    exit 1
fi

#!/usr/bin/env bash
# formats_page.sh - the tables in codecs/formats.md are what they are made from: the formats, what
# `kerf formats` says; the conformance, the rows of tests/golden/conformance.md in short.
#
#   bash tests/build/formats_page.sh KERF [--update]
#
#   KERF      the command
#   --update  puts the tables into the page instead of comparing
set -euo pipefail
kerf=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
page=codecs/formats.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

formats() {
    "$kerf" formats --json | jq -r '
        "| format | bpw | element | group | scale | encoders, default first | |",
        "|---|---|---|---|---|---|---|",
        (.formats[] | "| `\(.name)` | \(.bpw_4096x4096 * 1000 | round / 1000) | \(.element) | \(.group) "
            + "| \(.scale) | \([.encoders[].name] | join(", ")) | \(.note) |")'
}

# One row per encoder and package: formats without any difference, and the others with the groups
# that show one, as counted in the run (where functions of a package differ, the most).
conformance() {
    awk -F ' [|] ' '
        BEGIN {
            print "| encoder | package | exact | exact except (groups that differ) | elements compared |"
            print "|---|---|---|---|---:|"
        }
        !/^[|] `/ { next }
        {
            codec = $1; gsub(/[|` ]/, "", codec)
            colon = index(codec, ":")
            row = substr(codec, colon + 1) SUBSEP $2
            pair = codec SUBSEP $2
            if (!(row in elements)) rows[++n] = row
            if (!(pair in differ)) formats[row] = formats[row] " " substr(codec, 1, colon - 1)
            groups = 0
            for (rest = $4; match(rest, /\([0-9]+ groups\)/); rest = substr(rest, RSTART + RLENGTH))
                groups += substr(rest, RSTART + 1, RLENGTH - 9) + 0
            if (!(pair in differ) || groups > differ[pair]) differ[pair] = groups
            if ($4 !~ /^exact/) { print "| " codec " differs |"; bad = 1 }
            elements[row] += $5 + 0
        }
        END {
            for (i = 1; i <= n; i++) {
                split(rows[i], part, SUBSEP)
                count = split(formats[rows[i]], name, " ")
                exact = except = ""
                for (k = 1; k <= count; k++) {
                    groups = differ[name[k] ":" part[1] SUBSEP part[2]]
                    if (groups) except = except ", " name[k] " (" groups ")"
                    else exact = exact ", " name[k]
                }
                printf "| `%s` | %s | %s | %s | %.0f M |\n", part[1], part[2], substr(exact, 3),
                    substr(except, 3), elements[rows[i]]
            }
            if (n == 0 || bad) exit 1
        }' tests/golden/conformance.md
}

# The page with the tables in their places.
fresh() {
    formats >"$work/formats" && conformance >"$work/conformance" || return 1
    bench/section formats "$work/formats" <$page |
        bench/section conformance "$work/conformance"
}

if [ "${2:-}" = --update ]; then
    text=$(fresh)
    printf '%s\n' "$text" >$page
elif ! diff -u $page <(fresh); then
    echo "$page is behind formats.def or conformance.md: bash tests/build/formats_page.sh KERF --update" >&2
    exit 1
fi

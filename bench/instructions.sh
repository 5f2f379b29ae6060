#!/usr/bin/env bash
# instructions.sh - instructions per element of every codec, counted by callgrind.
#
#   bench/instructions.sh PROGRAM            compares them with bench/results/instructions.json
#   bench/instructions.sh PROGRAM --write    makes that file
#
# PROGRAM is bench_instructions. Exit 1 when a figure grew by more than 5 %; 77 when there is no
# valgrind, or when the recorded figures are of another compiler or kind of build, which count
# differently.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2; }
recorded=$(dirname "${BASH_SOURCE[0]}")/results/instructions.json
command -v valgrind > /dev/null && command -v jq > /dev/null || { echo "needs valgrind and jq" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the program will say of itself is known before the minute that the counting takes.
same() { jq -e --arg b "$1" --arg c "$2" '.build == $b and .compiler == $c' "$recorded" > /dev/null; }
read -r elements build compiler < <("$1" --version)
if [ "${2:-}" != --write ] && ! same "$build" "$compiler"; then
    echo "recorded: $(jq -r '.build + ", " + .compiler' "$recorded"); here: $build, $compiler" && exit 77
fi

valgrind -q --tool=callgrind --instr-atstart=no --callgrind-out-file="$work/out" "$1" > /dev/null
for profile in "$work"/out.*; do
    awk '/^desc: Trigger: Client Request:/ { name = $NF } /^(summary|totals):/ { n = $2 }
         END { if (name != "") print name, n }' "$profile"
done | sort | jq -Rn --argjson n "$elements" --arg b "$build" --arg c "$compiler" '
    {schema: "kerf.instructions/1", backend: "avx2", build: $b, compiler: $c, elements: $n,
     per_element: (reduce (inputs / " ") as [$name, $count]
         ({}; .[$name] = (($count | tonumber) * 1000 / $n | round / 1000)))}' > "$work/new.json"
[ "$(jq '.per_element | length' "$work/new.json")" -gt 0 ] || { echo "nothing was counted" >&2 && exit 1; }

if [ "${2:-}" = --write ]; then
    cp "$work/new.json" "$recorded"
    exit
fi
jq -rn --slurpfile old "$recorded" --slurpfile new "$work/new.json" '
    $new[0].per_element as $now
    | [$old[0].per_element | to_entries[] | . + {now: $now[.key]}
       | select(.now == null or .now > 1.05 * .value)]
    | (.[] | "\(.key): \(.value) instructions per element before, \(.now // "none") now"),
      if length > 0 then error("\(length) figures grew by more than 5 %") else "no figure grew" end'

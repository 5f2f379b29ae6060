#!/usr/bin/env bash
# formats.sh - the format table as text and JSON, and one format.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect 0 formats
output_says '^nvfp4 '
expect 0 formats --json
json_is schema kerf.formats/1
names=$(json 'formats.*.name')
check "text and JSON list the same formats" diff <(sort <<<"$names") \
    <("$KERF" formats | awk 'NR > 2 && NF == 0 { exit } NR > 2 { print $1 }' | sort)
check "wire numbers differ" test -z "$(json 'formats.*.wire' | sort | uniq -d)"
for name in $names; do
    expect 0 formats "$name"
    output_says "^$name"
    output_says 'encoders'
done
expect 0 formats nvfp4
output_says 'nvfp4:4/6 .*2512.02010'
expect 2 formats nvfp
error_says 'nvfp4'

finish

#!/usr/bin/env bash
# house_size.sh - signs that a part has outgrown its room: a source file of more than 450 lines that is
# not a table, a command of more than 4917 lines without tables, a server in it of more than 3940 besides, or a kerf-mpi of
# more than 583.
#
#   house_size.sh [ROOT]    exit 0: neither; 1: what has is on stdout
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

# Files that may be longer, because every line of them is a row of a table, or data.
tables="codecs/selftest/digests.h advisor/tokens/unicode_tables.h cli/peer_words.def"

folders=()
for folder in codecs kernels advisor cli bench tests; do [ ! -d $folder ] || folders+=("$folder"); done
find "${folders[@]}" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.def' |
    LC_ALL=C sort | xargs wc -l | awk -v tables="$tables" '
    $2 == "total" { next }
    $2 ~ /^cli\/serve\// { server += $1 }
    $2 ~ /^cli\/mpi\// { mpi += $1 }
    index(" " tables " ", " " $2 " ") { next }
    $2 ~ /^cli\// && $2 !~ /^cli\/(serve|mpi)\// { command += $1 }
    $1 > 450 {
        print $2 ": " $1 " lines, more than 450"
        failed = 1
    }
    END {
        if (server > 3940) { print "cli/serve: " server " lines, more than 3940"; failed = 1 }
        if (mpi > 583) { print "cli/mpi: " mpi " lines, more than 583"; failed = 1 }
        if (command > 4917) { print "cli: " command " lines, more than 4917"; failed = 1 }
        exit failed
    }'

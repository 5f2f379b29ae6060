#!/usr/bin/env bash
# house_can_fail.sh - layers.sh, quiet.sh and house_size.sh notice: plants one fault after the other in
# a copy of the sources. Each must pass on the copy as it is, and name each planted fault.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$here"/../../{codecs,kernels,advisor,cli} "$copy"
status=0 count=0
for test in layers quiet house_size; do
    bash "$here/$test.sh" "$copy" || status=1
done

# noticed TEST WORDS FILE FAULT: the test now fails, with these words about this file.
noticed() {
    local output
    count=$((count + 1))
    if output=$(bash "$here/$1.sh" "$copy"); then
        echo "$1.sh did not notice: $4 in $3" && status=1
    elif ! grep -F -- "$2" <<<"$output" | grep -qF -- "$3"; then
        echo "$1.sh on $4 in $3: expected '$2', got: $output" && status=1
    fi
}

# plant FILE TEXT: at its end; unplant FILE takes it out again.
plant() {
    mkdir -p "$(dirname "$copy/$1")"
    [ ! -e "$copy/$1" ] || cp "$copy/$1" "$copy/saved"
    printf '%b\n' "$2" >>"$copy/$1"
}
unplant() { if [ -e "$copy/saved" ]; then mv "$copy/saved" "$copy/$1"; else rm "$copy/$1"; fi; }

# test | file to append to | bad line | words of the complaint
while IFS='|' read -r test file line words; do
    test=${test//[[:space:]]/} file=${file//[[:space:]]/} words=${words# }
    line=$(sed 's/^ //; s/[[:space:]]*$//' <<<"$line")
    plant "$file" "$line"
    noticed "$test" "$words" "$file" "'$line'"
    unplant "$file"
done <<'END'
layers | codecs/base/base.h          | #include "block/mx.h"          | base may not include block
layers | codecs/base/error.c         | #include <omp.h>               | <omp.h> belongs into
layers | codecs/scalar/bits.h        | #include "block/mx.h"          | scalar may not include block
layers | codecs/scalar/bits.h        | #include "base/base.h"         | scalar may not include base
layers | codecs/scalar/bits.h        | #include <stdlib.h>            | scalar may not include <stdlib.h>
layers | codecs/scalar/bits.h        | #include "nowhere.h"           | no such header in the tree
layers | codecs/scalar/bits.h        | #include SOME_MACRO            | no reader can follow
layers | codecs/block/mx.h           | #include "base/base.h"         | block may not include base
layers | codecs/block/mx.h           | #include <math.h>              | no libm
layers | codecs/base/plant.c         | #include <zstd.h>              | <zstd.h> belongs into
layers | codecs/format/plant.c       | #include "cpu/ops.h"           | format may not include cpu
layers | codecs/cpu/plant.c          | #include <math.h>              | no libm
layers | codecs/cpu/plant.c          | #include <jansson.h>           | <jansson.h> belongs into
layers | codecs/cpu/plant.c          | #include <kerf/file.h>         | cpu may not include <file>
layers | codecs/cpu/plant.c          | #include "cuda/handle.h"       | cpu may not include cuda
layers | codecs/file/disk/plant.c    | #include "scalar/bits.h"       | disk may not include scalar
layers | codecs/file/disk/plant.c    | #include "file/json/text.h"    | disk may not include json
layers | codecs/file/read/plant.c    | #include "block/mx.h"          | read may not include block
layers | codecs/file/read/plant.c    | #include "layout/weights.h"    | read may not include layout
layers | codecs/file/read/plant.c    | #  define KERF_BLOCK_HEADERS   | block headers come
layers | codecs/file/read/plant.c    | #include "kerf/codec.h"        | included as <kerf/...>
layers | codecs/layout/plant.c       | #include "stream/panels.h"     | layout may not include stream
layers | codecs/model/plant.c        | #include <kerf/gemv.h>         | model may not include <kernels>
layers | codecs/include/kerf/codec.h | #include <kerf/file.h>         | <codec> may not include <file>
layers | codecs/include/kerf/file.h  | #include <stdio.h>             | may not include <stdio.h>
layers | kernels/time/plant.c        | #include "cpu/ops.h"           | kernels/time may not include cpu
layers | advisor/score/plant.c       | #include "block/mx.h"          | score may not include block
layers | advisor/score/plant.c       | #include "cli.h"               | score may not include cli
layers | cli/plant.c                 | #include "base/base.h"         | cli may not include base
layers | cli/plant.c                 | #include "block/mx.h"          | cli may not include block
layers | cli/plant.c                 | #include "stream/panels.h"     | cli may not include stream
layers | codecs/plant.c              |                                | in no room
layers | codecs/cpu/main.c           |                                | the same file name
quiet  | codecs/base/error.c         | void f(void) { printf("x"); }  | printf prints
quiet  | codecs/model/plant.c        | void f(void) { puts("x"); }    | puts prints
quiet  | advisor/report/plant.c      | void f(void) { g(1, stderr); } | stderr prints
quiet  | kernels/cuda/plant.cuh      | int g = stdout != 0;           | stdout prints
quiet  | codecs/stream/plant.c       | void f(void) { exit(1); }      | exit ends the program
quiet  | codecs/scalar/bits.h        | #define F(x) assert(x)         | assert ends the program
quiet  | kernels/plan/plant.c        | /* a */ int g = abort();       | abort ends the program
quiet  | advisor/machine/plant.c     | char *f = getenv("HOME");      | getenv uses the environment
quiet  | codecs/model/plant.h        | int n = args_has(a, "--all");  | args_has: options
END

# Circles take two lines each.
circle() { # WHAT FILE LINE FILE LINE
    plant "$2" "$3" && plant "$4" "$5"
    noticed layers "$1s in a circle" plant "a circle of two ${1}s"
    rm "$copy/$2" "$copy/$4"
}
circle header codecs/block/plant_a.h '#include "block/plant_b.h"' \
    codecs/block/plant_b.h '#include "block/plant_a.h"'
touch "$copy"/codecs/model/plant_{a,b}.h
circle file codecs/model/plant_a.c '#include "model/plant_b.h"' \
    codecs/model/plant_b.c '#include "plant_a.h"'
rm "$copy"/codecs/model/plant_{a,b}.h
mkdir "$copy"/kernels/cuda/plant_{a,b}
touch "$copy"/kernels/cuda/plant_a/plant_a.h "$copy"/kernels/cuda/plant_b/plant_b.h
circle room kernels/cuda/plant_a/plant_c.c '#include "cuda/plant_b/plant_b.h"' \
    kernels/cuda/plant_b/plant_d.c '#include "cuda/plant_a/plant_a.h"'
rm -r "$copy"/kernels/cuda/plant_{a,b}

# A file of 451 lines, and a command that is filled up with files of 400.
plant codecs/base/plant.c "$(printf '\\n%.0s' {1..450})"
noticed house_size "451 lines, more than 450" codecs/base/plant.c "a long file"
rm "$copy/codecs/base/plant.c"
for i in {1..14}; do printf '\n%.0s' {1..400} >"$copy/cli/plant_$i.c"; done
noticed house_size "lines, more than" cli: "a large command"

[ $status -eq 0 ] && echo "$count planted faults, each found"
exit $status

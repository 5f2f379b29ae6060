#!/usr/bin/env bash
# layers_can_fail.sh - plants one bad line after the other in a copy of the sources; layers.sh
# must pass on the copy as it is and name each planted line.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for folder in codecs kernels advisor cli; do
    [ ! -d "$here/../../$folder" ] || cp -r "$here/../../$folder" "$copy"
done
bash "$here/layers.sh" "$copy"

# file to append to | bad line | words of the complaint
plants='codecs/base/base.h       | #include "block/mx.h"          | base may not include block
codecs/base/error.c              | #include <omp.h>               | <omp.h> belongs into
codecs/scalar/bits.h             | #include "block/mx.h"          | scalar may not include block
codecs/scalar/bits.h             | #include "base/base.h"         | scalar may not include base
codecs/scalar/bits.h             | #include <stdlib.h>            | scalar may not include <stdlib.h>
codecs/scalar/bits.h             | #include "nowhere.h"           | no such header in the tree
codecs/scalar/bits.h             | #include SOME_MACRO            | no reader can follow
codecs/block/mx.h                | #include "base/base.h"         | block may not include base
codecs/block/mx.h                | #include <math.h>              | no libm
codecs/base/plant.c              | #include <zstd.h>              | <zstd.h> belongs into
codecs/cpu/plant.c               | #include <math.h>              | no libm
codecs/cpu/plant.c               | #include <jansson.h>           | <jansson.h> belongs into
codecs/cpu/plant.c               | #include <kerf/file.h>         | cpu may not include file.h
codecs/file/plant.c              | #include "scalar/bits.h"       | file may not include scalar
codecs/file/plant.c              | #include "block/mx.h"          | file may not include block
codecs/file/plant.c              | #  define KERF_BLOCK_HEADERS   | block headers come
codecs/file/plant.c              | #include "kerf/codec.h"        | included as <kerf/...>
codecs/include/kerf/codec.h      | #include <kerf/file.h>         | codec.h may not include file.h
codecs/include/kerf/file.h       | #include <stdio.h>             | may not include <stdio.h>
cli/plant.c                      | #include "base/base.h"         | cli may not include base
cli/plant.c                      | #include "block/mx.h"          | cli may not include block
codecs/cpu/main.c                |                                | the same file name'

status=0 count=0
while IFS='|' read -r file line words; do
    file=${file//[[:space:]]/} words=${words# }
    line=$(sed 's/^ //; s/[[:space:]]*$//' <<<"$line")
    saved=$copy/saved
    rm -f "$saved"
    [ ! -e "$copy/$file" ] || mv "$copy/$file" "$saved"
    { [ ! -e "$saved" ] || cat "$saved"; echo "$line"; } >"$copy/$file"
    if output=$(bash "$here/layers.sh" "$copy"); then
        echo "not noticed: '$line' in $file" && status=1
    elif ! grep -qF -- "$words" <<<"$output" || ! grep -qF "$file" <<<"$output"; then
        echo "'$line' in $file: expected '$words', got: $output" && status=1
    fi
    rm "$copy/$file"
    [ ! -e "$saved" ] || mv "$saved" "$copy/$file"
    count=$((count + 1))
done <<<"$plants"

# A circle takes two lines.
echo '#include "block/plant_b.h"' >"$copy/codecs/block/plant_a.h"
echo '#include "block/plant_a.h"' >"$copy/codecs/block/plant_b.h"
if output=$(bash "$here/layers.sh" "$copy") || ! grep -q 'includes itself' <<<"$output"; then
    echo "a circle of two headers was not noticed" && status=1
fi
[ $status -eq 0 ] && echo "$((count + 1)) planted lines, each found"
exit $status

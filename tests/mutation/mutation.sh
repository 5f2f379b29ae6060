#!/usr/bin/env bash
# mutation.sh - do the tests notice? Applies each fault of faults.txt to a copy of the sources, builds
# the tests of bytes and laws (their parts that CI runs) with plain compiler calls, and runs them
# until one fails. A fault that no test notices is listed, and this script fails. A fault in the
# header of one family first meets the golden vectors in a library of that family's formats alone:
# seconds, and most end there. Faults outside of the arithmetic are built in one tree by CMake, one
# after the other, and meet the tests of the engine and the advisor.
#
#   bash tests/mutation/mutation.sh [-j N] [PATTERN]     PATTERN: only faults that contain it
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

jobs=$(nproc) pattern=
while [ $# -gt 0 ]; do
    case $1 in
    -j) jobs=${2:?-j needs a number} && shift ;;
    *) pattern=$1 ;;
    esac
    shift
done

work=$(mktemp -d) root=$work/tree # a copy: what is being edited meanwhile does not matter
whole=$work/whole                 # likewise
trap 'rm -rf "$work"' EXIT
mkdir -p "$root/tests/data" "$whole" && cp -r codecs cli "$root"
for name in *; do [[ $name = build* ]] || cp -r "$name" "$whole"; done
cp -r tests/{unit,golden,property,exhaustive,mutation,*.h} "$root/tests" && cd "$root"
compiler=${CC:-gcc}
limit_s=120 # of one test program; a fault that makes it longer is caught
export root work compiler limit_s OMP_NUM_THREADS=1

# Those with internal headers are built again for every fault; the others see the public API only.
inside=(unit/test_scalar unit/test_block exhaustive/scalar)
outside=(unit/test_golden unit/test_codec unit/test_codec_numbers property/properties exhaustive/blocks exhaustive/scales)

# compile SOURCES_ROOT FILE OBJECT
compile() {
    "$compiler" -std=c11 -O1 -ffp-contract=off -D_GNU_SOURCE -DKERF_REF_ONLY -w -I"$1/codecs" \
        -I"$1/codecs/include" -I"$root/tests" -DKERF_TEST_DATA="\"$root/tests/data\"" \
        -DKERF_TEST_GOLDEN="\"$root/tests/golden\"" -c "$2" -o "$3"
}

# run_tests SOURCES_ROOT OBJECTS_FOLDER FAULTY_FILE: prints the name of the first test that fails.
# What is built is built when it is needed: most faults fall to the first test.
run_tests() {
    local sources=$1 objects=$2 name program libraries
    local tests=("${inside[@]}" "${outside[@]}")
    [[ $3 != codecs/block/* ]] || tests=("${outside[@]}" "${inside[@]}")
    for name in "${tests[@]}"; do
        program=$objects/${name##*/}
        libraries=("$work"/oracle/*.o "$work"/base/*.o "$work"/library/*.o "$objects"/{ref,encode_bands}.o)
        if [ -e "$work/fixed/${name##*/}.o" ]; then
            cp "$work/fixed/${name##*/}.o" "$program.o"
            [ -e "$objects/ref.o" ] ||
                { compile "$sources" "$sources/codecs/cpu/ref.c" "$objects/ref.o" &&
                    compile "$sources" "$sources/codecs/cpu/encode_bands.c" "$objects/encode_bands.o"; } ||
                return 2
        else
            compile "$sources" "$root/tests/$name.c" "$program.o" || return 2
            libraries=()
        fi
        "$compiler" "$program.o" "${libraries[@]}" -o "$program" -lcmocka -lm || return 2
        # shellcheck disable=SC2046 # options are words
        if ! timeout "$limit_s" "$program" $(seed_of "$name") >"$program.log" 2>&1; then
            echo "${name##*/}"
            return 0
        fi
    done
    return 1
}

# The family whose prefix begins the name of a header of codecs/block, if there is one.
family_of() {
    local line name=${1##*/}
    [[ $1 == codecs/block/* ]] || return 0
    while read -r line; do
        # shellcheck disable=SC2053 # a pattern
        [[ $name != ${line#* }* ]] || echo "${line% *}"
    done < <(sed -nE 's/^KERF_FAMILY\((\w+), (\w+)\)$/\1 \2/p' "$root/codecs/include/kerf/formats.def")
}

# run_family SOURCES_ROOT FAMILY FOLDER: the golden vectors of one family; fails with 1 when they
# notice nothing, with 2 when it does not compile. int8 stays: test_golden tests itself with it; so
# do blocks of two levels, each of which super_layout.h names.
run_family() {
    local source
    mkdir -p "$3" && cp -r "$1/codecs" "$3/codecs"
    sed -i -E "/^KERF_FORMAT\(/{/\"int8\"|\"[^\"]*\", *($2|SUPER),/!d}" "$3/codecs/include/kerf/formats.def"
    (cd "$3" && for source in codecs/format/*.c codecs/cpu/*.c; do
        compile "$3" "$source" "$3/$(basename "$source" .c).o" || exit 2
    done) || return 2
    "$compiler" "$3"/*.o "$work"/base/*.o "$work/fixed/test_golden.o" -o "$3/golden" -lcmocka -lm ||
        return 2
    if ! timeout "$limit_s" "$3/golden" >"$3/golden.log" 2>&1; then echo test_golden; else return 1; fi
}

# The same cases in every run, so that what is caught today is caught tomorrow.
seed_of() {
    case $1 in exhaustive/* | property/*) echo --seed 1 ;; esac
}

# Sets file, title, old, new of fault number $1.
read_fault() {
    local line at=0
    file='' title='' old='' new=''
    while IFS= read -r line; do
        case $line in
        '@ '*)
            at=$((at + 1))
            [ $at -le "$1" ] || return 0
            file=${line#@ } && title=${file#*  } && file=${file%%  *}
            ;;
        '- '*) [ $at -ne "$1" ] || old+=${old:+$'\n'}${line#- } ;;
        '+ '*) [ $at -ne "$1" ] || new+=${new:+$'\n'}${line#+ } ;;
        esac
    done <"$root/tests/mutation/faults.txt"
}

# Applies the fault that was read last to the sources in $1; fails unless its text occurs once.
apply_fault() {
    local text without
    text=$(<"$1/$file")
    without=${text/"$old"/}
    if [ "$without" = "$text" ] || [ "${without/"$old"/}" != "$without" ]; then
        echo "broken    $file: $title (the text must occur exactly once)"
        return 1
    fi
    printf '%s\n' "${text/"$old"/"$new"}" >"$1/$file"
}

# Prints one line: caught, SURVIVED or broken, the file, the fault, the test.
try_fault() {
    local file title old new family by status=1 here=$work/$1
    read_fault "$1"
    mkdir -p "$here" && cp -r "$root/codecs" "$here/codecs"
    if apply_fault "$here"; then
        mkdir -p "$here/build"
        family=$(family_of "$file")
        if [ -n "$family" ]; then
            by=$(run_family "$here" "$family" "$here/small" 2>"$here/errors") && status=0 || status=$?
        fi
        if [ $status -eq 1 ]; then
            by=$(run_tests "$here" "$here/build" "$file" 2>"$here/errors") && status=0 || status=$?
        fi
        case $status in
        0) echo "caught    $file: $title ($by)" ;;
        1) echo "SURVIVED  $file: $title" ;;
        *) echo "broken    $file: $title (does not compile)" && head -n 3 "$here/errors" ;;
        esac
    fi
    rm -rf "$here"
}

# --- outside of the arithmetic -----------------------------------------------------------------------

tree_units=(test_predict test_predict_tiers test_gemv_outline test_choose test_model test_hardware test_score
    test_quantize_api test_quantize_cancel test_file_resume test_file_journal test_names test_predictions
    test_documents test_texts test_texts_machines)
tree_scripts=(advise compare_times predict hardware)

build_in_tree() { cmake --build "$work/tree_build" -j "$jobs" --target "$@" >"$work/tree_log" 2>&1; }

# Prints the name of the first test that fails; fails with 1 when none does, with 2 when it does not
# compile. $1: the faulty file; the unit tests see the library alone.
run_in_tree() {
    local name build=$work/tree_build
    if [[ $1 != cli/* ]]; then
        build_in_tree "${tree_units[@]}" || return 2
        for name in "${tree_units[@]}"; do
            timeout $limit_s "$build/tests/$name" >"$work/tree_log" 2>&1 || { echo "$name" && return 0; }
        done
    fi
    build_in_tree kerf || return 2
    for name in "${tree_scripts[@]}"; do
        KERF=$build/kerf TOOLS=$build/tests/cli DATA=$whole/tests/data GOLDEN=$whole/tests/golden \
            timeout 600 env -u OMP_NUM_THREADS bash "$whole/tests/cli/$name.sh" >"$work/tree_log" 2>&1 ||
            { echo "cli_$name" && return 0; }
    done
    return 1
}

try_in_tree() {
    local file title old new by status=0
    read_fault "$1"
    cp -p "$whole/$file" "$work/kept"
    if apply_fault "$whole"; then
        by=$(run_in_tree "$file") || status=$?
        case $status in
        0) echo "caught    $file: $title ($by)" ;;
        1) echo "SURVIVED  $file: $title" ;;
        *) echo "broken    $file: $title (does not compile)" && grep -m 3 error "$work/tree_log" ;;
        esac
    fi
    cp "$work/kept" "$whole/$file" # a new date: it is built again
}

prepare_tree() {
    local status=0 by
    cmake -S "$whole" -B "$work/tree_build" -DKERF_CUDA=OFF -DCMAKE_BUILD_TYPE=Release >"$work/tree_log" 2>&1 &&
        build_in_tree kerf "${tree_units[@]}" json_get make_gguf make_malformed make_model peak_memory spoil ||
        { tail -n 5 "$work/tree_log" >&2 && exit 1; }
    by=$(run_in_tree advisor/none) || status=$?
    [ $status -eq 1 ] || { echo "without any fault this fails: $by" >&2 && exit 1; }
}

# --- all of them -----------------------------------------------------------------------------------

build_parts() {
    mkdir -p "$work"/{fixed,oracle,library,base,baseline}
    for name in "${outside[@]}"; do compile "$root" "tests/$name.c" "$work/fixed/${name##*/}.o"; done
    for source in tests/exhaustive/{oracle*,patterns}.c tests/property/{sampling,laws*,fences}.c; do
        compile "$root" "$source" "$work/oracle/$(basename "$source" .c).o"
    done
    # What no table of formats is in; test_golden shares its reader with the command.
    for source in codecs/base/*.c codecs/cuda/nodevice.c codecs/selftest/{vector_check,vector_text}.c; do
        compile "$root" "$source" "$work/base/$(basename "$source" .c).o"
    done
    for source in codecs/format/*.c codecs/cpu/*.c; do
        name=$(basename "$source" .c)
        case $name in ref | encode_bands) ;; *) compile "$root" "$source" "$work/library/$name.o" ;; esac
    done
}

start=$SECONDS
expect_none() { # COMMAND...: no test may fail without a fault
    local by status=0
    by=$("$@") || status=$?
    [ $status -eq 1 ] || { echo "without any fault these fail: $* $by" >&2 && exit 1; }
}
faults=$(grep -c '^@ ' tests/mutation/faults.txt)
chosen=() in_tree=()
for ((i = 1; i <= faults; i++)); do
    read_fault $i
    [[ "$file $title" = *"$pattern"* ]] || continue
    case $file in
    codecs/base/text_page.c | codecs/file/* | codecs/layout/* | codecs/stream/* | codecs/model/*) in_tree+=($i) ;;
    codecs/*) chosen+=($i) ;;
    *) in_tree+=($i) ;;
    esac
done
touch "$work/results"

if [ ${#chosen[@]} -gt 0 ]; then
    build_parts
    expect_none run_tests "$root" "$work/baseline" none
    sed -n 's/^@ \(codecs[^ ]*\) .*/\1/p' tests/mutation/faults.txt | sort -u | while read -r file; do
        family=$(family_of "$file")
        [ -z "$family" ] || [ -e "$work/family/$family" ] ||
            expect_none run_family "$root" "$family" "$work/family/$family"
    done
    export -f compile run_tests family_of run_family seed_of read_fault apply_fault try_fault
    declare -p inside outside >"$work/lists"
    printf '%s\n' "${chosen[@]}" |
        xargs -P "$jobs" -I{} bash -c '. "$work/lists" && try_fault {}' | tee -a "$work/results"
fi
if [ ${#in_tree[@]} -gt 0 ]; then
    prepare_tree
    for i in "${in_tree[@]}"; do try_in_tree "$i" | tee -a "$work/results"; done
fi

caught=$(grep -c '^caught' "$work/results" || true)
total=$((${#chosen[@]} + ${#in_tree[@]}))
echo "$caught of $total faults caught, $((SECONDS - start)) s"
[ "$caught" -eq $total ]

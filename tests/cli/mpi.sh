#!/usr/bin/env bash
# mpi.sh - kerf-mpi under mpirun: the bytes of one process for any number of ranks, in three layouts, also when
# layers that share a tensor scale lie in files of different ranks; tables and calibrations too; ranks killed,
# and the same line again; and one rank's failure ends all with one line. Skipped where there is no MPI.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mpi=$(dirname "$KERF")/kerf-mpi
[ -x "$mpi" ] && command -v mpirun >/dev/null || { echo "no MPI" && exit 77; }
mkdir "$tmp/room" && cd "$tmp/room" || exit 70
export OMP_WAIT_POLICY=passive
launch=(mpirun)
if mpirun --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then # as root in a container, on fewer cores than ranks
    launch+=(--allow-run-as-root --oversubscribe -q)
fi

# ranks CODE N ARGS...: by N ranks; must end with this code, a failure with one line.
ranks() {
    local wanted=$1 n=$2
    shift 2
    code=0
    "${launch[@]}" -n "$n" "$mpi" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
    checks=$((checks + 1))
    [ "$code" -eq "$wanted" ] || note_failure "$n ranks, $*: exit code $code instead of $wanted: $(head -n 5 "$tmp/err")"
    [ "$wanted" -le 1 ] || check "$*: one line of error: $(cat "$tmp/err")" test "$(wc -l <"$tmp/err")" -eq 1
}
same() { # NAME A B: two folders with the same names and bytes
    check "$1: the same bytes" diff -r "$2" "$3"
    rm -rf "$3"
}
nothing_left() { check "$1: nothing is left: $(ls -A)" test -z "$(ls -A | grep -v -e '^whole' -e '^model$')"; rm -rf out*; }

# --- the same bytes ------------------------------------------------------------------------------
size=(--shard-size 200KB)
for layout in kerf modelopt compressed-tensors; do
    args=(quantize "$model" -f nvfp4 --layout $layout "${size[@]}")
    expect 0 "${args[@]}" -o whole-$layout
    for n in 1 2 3 8; do
        ranks 0 $n "${args[@]}" -o out -q
        check "nothing but the output is left: $(ls -A)" test ! -e out.kerf-parts
        same "$layout, $n ranks" whole-$layout out
    done
done
expect 0 convert whole-modelopt --layout compressed-tensors "${size[@]}" -o whole-converted
ranks 0 3 convert whole-modelopt --layout compressed-tensors "${size[@]}" -o out
error_says 'out: '
same convert whole-converted out
expect 0 dequantize whole-modelopt -o whole-dense
ranks 0 2 dequantize whole-modelopt -o out --json --sha256
json_is output out
check "sums of the output" sha256sum --status -c out.sha256
rm out.sha256
same dequantize whole-dense out

# --- tables and calibrations ------------------------------------------------------------------------
run score "$model" -f nvfp4,int4-g128 --json
cp "$tmp/out" whole-scores
ranks 0 3 score "$model" -f nvfp4,int4-g128 --json
check "scores of three ranks" cmp -s "$tmp/out" whole-scores
args=(calibrate "$model" --tokens "$model/eval.u16" --rows 0:32 --alpha-by none --gram)
expect 0 "${args[@]}" -o whole-cal
cp "$tmp/out" whole-cal.txt
for n in 2 3; do
    ranks 0 $n "${args[@]}" -o out
    check "what $n ranks say of it" cmp -s "$tmp/out" whole-cal.txt
    same "calibration, $n ranks" whole-cal out
done
# a rank is killed while layers are summed; what rank 0 has written is not summed again
args+=(--resume)
"${launch[@]}" -n 3 "$mpi" "${args[@]}" -o out >/dev/null 2>&1 </dev/null &
pid=$!
for _ in $(seq 500); do compgen -G '.out.kerf-tmp-*' >/dev/null && break || sleep 0.01; done
sleep 0.4
kill -9 "$(pgrep -n -f "^$mpi ")" 2>/dev/null
wait $pid 2>/dev/null
[ -e out ] || ranks 0 2 "${args[@]}" -o out
same "a calibration after kill -9" whole-cal out
rm -rf whole-cal*

# --- progress ----------------------------------------------------------------------------------------
expect 0 quantize "$model" -f nvfp4:4/6 "${size[@]}" -o whole-46
ranks 0 3 quantize "$model" -f nvfp4:4/6 "${size[@]}" -o out --progress json
ends=$(grep -c '"end"' "$tmp/err")
total=$(grep -o '"name":"writing","total_bytes":[0-9]*' "$tmp/err" | grep -o '[0-9]*$')
check "one rank tells of all: $ends ends" test "$ends" -eq 1
check "of all bytes" test "${total:-0}" -gt 7000000
same "with progress" whole-46 out

# --- kills -----------------------------------------------------------------------------------------
# A rank dies: mpirun ends the others, and the same line with --resume goes on, with any number of ranks.
args=(quantize "$model" -f nvfp4:sweep --layout modelopt "${size[@]}" -q -j 1)
expect 0 "${args[@]}" -o whole-sweep
for round in 1 2 3 4 5 6 7 8 9 10; do
    "${launch[@]}" -n 3 "$mpi" "${args[@]}" -o out --resume >/dev/null 2>&1 </dev/null &
    pid=$!
    victims=()
    for _ in $(seq 500); do # until the ranks are there, and most times until they write
        mapfile -t victims < <(pgrep -f "^$mpi ")
        [ "${#victims[@]}" -lt 3 ] || [ "$round" -eq 1 ] || [ -e out.kerf-parts ] && break
        sleep 0.01
    done
    sleep "0.$(printf '%03d' $((RANDOM % 300)))"
    [ "${#victims[@]}" -lt 3 ] || kill -9 "${victims[RANDOM % 3]}" 2>/dev/null
    wait $pid 2>/dev/null
    [ ! -e out ] || break # all was done before the kill
    check "round $round: no output, and no file that looks like one" test -z "$(ls -d out/* 2>/dev/null)"
done
if [ ! -e out ]; then ranks 0 2 "${args[@]}" -o out --resume; fi
if [ -e out.kerf-parts ]; then expect 0 merge out; fi # killed behind the last rename: folders without files
check "no parts are left" test ! -e out.kerf-parts
same "after kill -9" whole-sweep out

# --- failures ----------------------------------------------------------------------------------------
nothing_left "before failures"
cp -r "$model" model && truncate -s -1000 model/model.safetensors
ranks 3 3 quantize model -f nvfp4 "${size[@]}" -o out
nothing_left "a source that was cut"
rm -rf model

# The disk of one rank is full, that of the others is not: parts of its own go to a file system of its own.
args=(quantize "$model" -f nvfp4 "${size[@]}" -o out)
small='mount -t tmpfs -o size=100k none out.kerf-parts && exec "$@"'
if unshare -m true 2>/dev/null; then
    mkdir out.kerf-parts
    code=0
    "${launch[@]}" -n 1 "$mpi" "${args[@]}" : -n 1 unshare -m bash -c "$small" - "$mpi" "${args[@]}" \
        >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
    check "exit code $code" test "$code" -eq 4
    check "one line: $(cat "$tmp/err")" test "$(wc -l <"$tmp/err")" -eq 1
    error_says '^kerf: rank 1 of 2: .*no room for'
    check "no output" test ! -e out
    ranks 0 2 "${args[@]}"
    same "after that" whole-kerf out
fi
if [ "$(id -u)" -eq 0 ] && mkdir disk && mount -t tmpfs -o size=1m none disk 2>/dev/null; then
    ranks 4 3 quantize "$model" -f nvfp4 "${size[@]}" -o disk/out
    error_says 'no room for'
    check "nothing half-written is left: $(find disk -name '.*tmp*')" test -z "$(find disk -name '.*tmp*')"
    umount disk
fi
rmdir disk 2>/dev/null

mkdir out && touch out/x.safetensors
ranks 4 2 "${args[@]}"
error_says 'out: exists already; -y replaces it'
ranks 0 2 "${args[@]}" -y
same "replaced" whole-kerf out
expect 0 quantize "$model" -f mxfp4 "${size[@]}" -o out -q --part 1/"$(ls whole-kerf/*.safetensors | wc -l)"
ranks 2 2 "${args[@]}"
error_says 'this part was written by another plan .*; -y replaces it'
ranks 0 2 "${args[@]}" -y
same "a part of another plan" whole-kerf out

# --- options -----------------------------------------------------------------------------------------
ranks 0 2 --help
output_says 'kerf-mpi quantize model/'
ranks 2 2 inspect "$model"
error_says 'ranks share quantize, convert'
ranks 2 2
ranks 2 2 quantize "$model" -f nvfp4 -o out.safetensors
error_says '-o names a folder'
ranks 2 2 quantize "$model" -f nvfp4 "${size[@]}" -o out --part 1/2
ranks 2 2 quantize "$model" -f nvfp5 "${size[@]}" -o out
error_says 'nvfp5'
nothing_left "after what was refused"
finish

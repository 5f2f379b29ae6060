#!/usr/bin/env bash
# resume.sh - kill -9 at 50 random moments of a model folder of 8 shards, and at 10 of single files: the
# next run with --resume gives the bytes of a run that nobody killed, leaves nothing else, and often had less to do. Whatever
# has changed meanwhile makes it begin anew and say why.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$tmp/source out=$tmp/out.d
mkdir "$out"
check "a model of 8 shards" "$TOOLS/make_model" many "$source" 8 96 512

now_us() { echo $(($(date +%s%N) / 1000)); }
digest_of() { # of all files, with their names
    if [ -d "$1" ]; then (cd "$1" && sha256sum -- *); else sha256sum <"$1"; fi | sha256sum
}
only_output() { # NAME: nothing else is left
    check "only $1 is left: $(ls -A "$out")" test "$(ls -A "$out")" = "$1"
}
start() { # ARGS...: in the background
    "$KERF" "$@" >/dev/null 2>&1 </dev/null &
    pid=$!
}
end() { # SIGNAL: of what was started
    kill -s "$1" "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}
# kill_within WHOLE ARGS...: kills a run at a random moment of WHOLE microseconds.
kill_within() {
    local delay=$((RANDOM * RANDOM % ($1 + 1)))
    shift
    start "$@"
    sleep "$((delay / 1000000)).$(printf '%06d' $((delay % 1000000)))"
    end KILL
}
# try_kill NAME ARGS...: kills a run when it has noted something and is not at its end.
try_kill() {
    local name=$1
    shift
    for _ in $(seq 20); do
        start "$@"
        for _ in $(seq 500); do
            compgen -G "$out/.$name.kerf-tmp-*/.journal" >/dev/null && break
            kill -0 "$pid" 2>/dev/null || break # it was too fast
            sleep 0.002
        done
        end "${signal:-KILL}"
        compgen -G "$out/.$name.kerf-tmp-*/.journal" >/dev/null && return
        rm -rf "${out:?}/$name"
    done
    return 1
}
kill_begun() {
    try_kill "$@" || check "a run of $1 could be killed in its midst" false
}

# --- 60 moments ---------------------------------------------------------------------------------
whole=0 killed=0 resumed=0
for pair in "folder 50" "one.safetensors 5" "packed.safetensors.zst 5"; do
    read -r name times <<<"$pair"
    args=(quantize "$source" -f nvfp4:sweep -j 1 -o "$out/$name")
    began=$(now_us)
    expect 0 "${args[@]}"
    took=$(($(now_us) - began))
    expected=$(digest_of "$out/$name")
    rm -r "${out:?}/$name"
    for i in $(seq "$times"); do
        kill_within "$took" "${args[@]}"
        [ $((i % 4)) -eq 0 ] && kill_within "$took" "${args[@]}" --resume
        if [ -e "$out/$name" ]; then
            whole=$((whole + 1))
        else
            killed=$((killed + 1))
            expect 0 "${args[@]}" --resume
            check "it says what it does" grep -q -e 'goes on: ' -e 'begins anew: ' "$tmp/err"
            grep -q 'goes on: ' "$tmp/err" && resumed=$((resumed + 1))
        fi
        check "$name: the bytes of an unkilled run" test "$(digest_of "$out/$name")" = "$expected"
        # What a run that ended of itself found done is nobody's: the next one clears it.
        [ "$(ls -A "$out")" = "$name" ] || expect 0 "${args[@]}" -y
        only_output "$name"
        rm -r "${out:?}/$name"
    done
done
echo "60 kills: $killed cut a run, $resumed of these were continued, $whole came too late"
check "60 kills" test $((killed + whole)) -eq 60
check "some runs were continued" test "$resumed" -ge 5

# --- what is found is compared ------------------------------------------------------------------
args=(quantize "$source" -f nvfp4:sweep -j 1 -o "$out/m")
expect 0 "${args[@]}"
expected=$(digest_of "$out/m")
rm -r "$out/m"
resume() { # PATTERN NAME ARGS...: the next run says this and gives the right bytes
    local says=$1 name=$2
    shift 2
    expect 0 "$@" --resume
    error_says "$says"
    check "$name: the bytes of an unkilled run" test "$(digest_of "$out/m")" = "$expected"
    only_output m
    rm -r "$out/m"
}
temp() { echo "$out"/.m.kerf-tmp-*; }
kill_begun m "${args[@]}"
resume 'goes on: [0-9.]* MB were there, all compared' "a killed run" "${args[@]}"
resume 'begins anew: there is nothing to continue' "nothing there" "${args[@]}"
kill_begun m "${args[@]}"
for shard in "$(temp)"/*.safetensors; do # the bytes of every tensor
    size=$(stat -c %s "$shard")
    head -c "$((size - 10000))" /dev/zero | dd of="$shard" bs=1M seek=10000 oflag=seek_bytes \
        conv=notrunc status=none
done
resume 'begins anew: nothing in it was whole' "damaged shards" "${args[@]}"
kill_begun m "${args[@]}"
rm "$(temp)"/*.safetensors
resume 'begins anew: nothing in it was whole' "lost shards" "${args[@]}"
kill_begun m "${args[@]}"
printf 'garbage' | dd of="$(temp)/.journal" bs=1 seek=20 conv=notrunc status=none
resume 'begins anew: its journal is damaged' "a damaged journal" "${args[@]}"
kill_begun m "${args[@]}"
truncate -s 100 "$(temp)/.journal"
resume 'begins anew: nothing in it was whole' "a cut journal" "${args[@]}"

# --- what has changed ---------------------------------------------------------------------------
kill_begun m "${args[@]}"
expect 0 quantize "$source" -f nvfp4:4/6 -o "$out/m" --resume
error_says 'begins anew: formats or options are others'
only_output m
rm -r "$out/m"
kill_begun m "${args[@]}" --nan zero
resume 'begins anew: formats or options are others' "another --nan" "${args[@]}"
kill_begun m "${args[@]}" --shard-size 3MB
resume 'begins anew: formats or options are others' "another --shard-size" "${args[@]}"
kill_begun m "${args[@]}"
touch "$source/model-00003-of-00008.safetensors"
resume 'begins anew: the source has changed' "a touched source" "${args[@]}"
kill_begun m "${args[@]}"
expect 0 "${args[@]}"
check "without --resume nothing is continued" test "$(digest_of "$out/m")" = "$expected"
only_output m
rm -r "$out/m"
kill_begun m "${args[@]}"
resume 'goes on' "other threads" quantize "$source" -f nvfp4:sweep -j 3 -o "$out/m"
kill_begun m "${args[@]}"
expect 0 "${args[@]}" --resume --progress json
check "an event says what was found" grep -q '"event":"resume","found_bytes":[1-9]' "$tmp/err"
rm -r "$out/m"

# --- signals that can be caught, and other verbs ------------------------------------------------
signal=TERM
kill_begun m "${args[@]}" --resume
resume 'goes on' "a run ended by SIGTERM" "${args[@]}"
start "${args[@]}"
sleep 0.1
end TERM
check "without --resume SIGTERM leaves nothing: $(ls -A "$out")" \
    test -z "$(ls -A "$out")" -o -e "$out/m"
rm -rf "$out/m"
signal=KILL
expect 0 quantize "$source" -f nvfp4 -o "$tmp/q"
for verb in dequantize "convert --layout compressed-tensors"; do
    read -ra words <<<"$verb"
    args=("${words[0]}" "$tmp/q" "${words[@]:1}" -j 1 -o "$out/m")
    expect 0 "${args[@]}"
    expected=$(digest_of "$out/m")
    lost=$(grep '^lost: ' "$tmp/err")
    rm -r "$out/m"
    for _ in 1 2 3; do
        says='goes on' # unless the machine is so fast that none is caught
        try_kill m "${args[@]}" || says='begins anew'
        resume "$says" "$verb" "${args[@]}"
        check "$verb: what was lost is counted as ever" \
            test "$(grep '^lost: ' "$tmp/err")" = "$lost"
    done
done
check "and something was lost" test -n "$lost"
finish

#!/usr/bin/env bash
# unreadable.sh - what is there and cannot be read is not absent: a pipe, a folder or a link to
# nowhere in the place of a file ends every verb that needs it, at once, with nothing written.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$tmp" || exit 70
"$TOOLS/make_model" inputs m
cp "$model/config.json" m
expect 0 quantize m -f int8 --layout compressed-tensors -o q

put() { # KIND PATH
    rm -rf "$2"
    case $1 in
    pipe) mkfifo "$2" ;;
    folder) mkdir "$2" ;;
    loop) ln -s "$(basename "$2")" "$2" ;;
    nowhere) ln -s nothing "$2" ;;
    esac
}
fails() { # ARGS...: exit code 3 or 4, one line, nothing written
    checks=$((checks + 1))
    code=0
    timeout 10 "$KERF" "$@" >out 2>err </dev/null || code=$?
    [ "$code" -eq 3 ] || [ "$code" -eq 4 ] || note_failure "kerf $*: $code $(head -n 2 err)"
    check "kerf $*: one line, not $(cat err)" test "$(wc -l <err)" -eq 1
    absent o && absent o.safetensors && rm -rf o o.safetensors
    check "kerf $*: no temporary" test -z "$(find . -name '.*kerf-tmp*')"
}

for kind in pipe folder loop nowhere; do
    cp -r m mx && put $kind mx/config.json
    fails quantize mx -f int8 -o o
    fails quantize mx -f int8 --layout compressed-tensors -o o
    fails advise mx --budget 9bits -f int8
    fails predict --hardware h200 --model mx
    cp -r q qx && put $kind qx/config.json
    fails convert qx --layout kerf -o o
    fails convert qx --layout kerf -o o.safetensors
    fails dequantize qx -o o.safetensors
    rm -rf mx qx
done
for kind in pipe loop nowhere; do # a folder of such a name is no companion
    for name in tokenizer.json merges.txt generation_config.json; do
        cp -r m mx && put $kind mx/$name
        fails quantize mx -f int8 -o o
        rm -rf mx
    done
    cp -r q qx && put $kind qx/model.safetensors.index.json && put $kind qx/model.safetensors
    fails verify m qx
    rm -rf qx
done
mkdir m/vocab
expect 0 quantize m -f int8 -o o
rm -rf o m/vocab

# A pipe in the place of any other file that is read.
put pipe p.json
for verb in "quantize m --recipe p.json -n" "verify m q --limits p.json" "hardware p.json" "hardware h200 --measured p.json" \
    "compare p.json --hardware h200" "predict --shape 64x64 --hardware p.json" "score p.json" "inspect p.json" \
    "advise m --budget 9bits -f int8 --alpha p.json" "advise m --budget 9bits -f int8 --cache p.json" \
    "advise m --budget 9bits -f int8 --imatrix p.json" "advise m --budget 9bits -f int8 --config p.json" \
    "score m --imatrix p.json"; do
    # shellcheck disable=SC2086
    fails $verb
done

# --- a source that changes while it is read -----------------------------------------------------
while read -r change; do
    for verb in "quantize s -f nvfp4:sweep -o o" "score s -f nvfp4:sweep" \
        "advise s --budget 5bits -f nvfp4:sweep --cache c.json -o r.json"; do
        rm -rf s c.json r.json
        "$TOOLS/make_model" many s 3 12 2048
        shard=s/model-00001-of-00003.safetensors
        cp $shard other
        : >err
        # shellcheck disable=SC2086
        "$KERF" $verb -j 1 --progress json >out 2>err </dev/null &
        run=$!
        # all files are open when the first weight is worked on
        for _ in $(seq 500); do grep -q '"tensor"' err && break || sleep 0.01; done
        case $change in
        written) printf x | dd of=$shard bs=1 seek=5000 conv=notrunc status=none ;;
        replaced) mv other $shard ;;
        gone) rm $shard ;;
        index) sed -i 's/^/ /' s/model.safetensors.index.json ;;
        esac
        code=0
        wait $run || code=$?
        check "$change, $verb: exit code 4, not $code" test "$code" -eq 4
        check "$change, $verb: names the file: $(tail -n 1 err)" grep -q '^kerf: s/model.*changed while it was read' err
        check "$change, $verb: nothing is left" test ! -e o -a ! -e c.json -a ! -e r.json
        check "$change, $verb: no temporary" test -z "$(find . -name '.*kerf-tmp*')"
    done
done <<'END'
written
replaced
gone
index
END
finish

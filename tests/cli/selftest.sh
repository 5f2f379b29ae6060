#!/usr/bin/env bash
# selftest.sh - the self test passes here, says the same every time, and notices: a vector that is
# changed by one digit, a command whose vectors are damaged.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${GOLDEN:?tests/golden}"

expect 0 selftest --json
json_is schema kerf.selftest/1
json_is pass true
json_is failed 0
encoders=$("$KERF" formats --json | "$TOOLS/json_get" 'formats.*.encoders.*.name' | wc -l)
json_is passed "$encoders"
check "every codec has golden vectors" test "$(json 'codecs.*.vectors' | sort -n | head -n 1)" -gt 0
check "the vectors are those of the files" test "$(json vectors)" -eq \
    "$(cat "$GOLDEN"/*.txt "$GOLDEN"/peers/vectors/*.txt | grep -cE '^(enc|decode) ')"
check "digests differ between codecs that choose other bytes" \
    test "$(json 'codecs.*.digest' | sort -u | wc -l)" -gt $((encoders / 2))
recorded=$GOLDEN/../../codecs/selftest/digests.h # with which digests.sh compares the text
check "the digests are those recorded" diff <(json 'codecs.*.digest') \
    <(sed -n 's/.*", 0x\([0-9a-f]*\)}.*/\1/p' "$recorded")

# --- vectors from a file -------------------------------------------------------------------------
expect 0 selftest --vectors "$GOLDEN/nvfp4.txt"
output_says '^nvfp4:sweep '
expect 0 selftest --vectors "$GOLDEN/peers/vectors/nvfp4.txt" --json
json_is pass true
check "only the encoders of the file" test -z "$(json 'codecs.*.format' | grep sweep)"
check "no digests without the tensors" test -z "$(json 'codecs.*.digest' 2>/dev/null)"

# One digit of one plane: that vector is named, and no other codec.
awk -v label='' '
    $1 == "case" { label = $2 }
    !done && $1 == "codes" && label == "ties" && enc == "4/6" {
        $2 = (substr($2, 1, 1) == "0" ? "1" : "0") substr($2, 2); done = 1 }
    { enc = $1 == "enc" ? $2 : $1 == "case" ? "" : enc; print }' "$GOLDEN/nvfp4.txt" >"$tmp/nvfp4.txt"
check "the vectors were changed" test "$(diff "$GOLDEN/nvfp4.txt" "$tmp/nvfp4.txt" | wc -l)" -eq 4
expect 1 selftest --vectors "$tmp/nvfp4.txt" --json
json_is pass false
json_is failed 1
row_of=$(paste <(json 'codecs.*.format') <(json 'codecs.*.pass') | awk '$2 == "false" { print $1 }')
check "the codec is named" test "$row_of" = nvfp4:4/6
expect 1 selftest --vectors "$tmp/nvfp4.txt"
output_says 'nvfp4:4/6 .* nvfp4.txt, case "ties" (line [0-9]*): codes: byte 0 is'
output_says '^failed: '

echo "case x F32 [1,1" >"$tmp/int8.txt"
expect 3 selftest --vectors "$tmp/int8.txt"
error_says 'int8.txt, line 1: no shape'
expect 4 selftest --vectors "$tmp/nvfp4-absent/nvfp4.txt"
expect 2 selftest --vectors "$tmp/unknown.txt"
error_says 'after its format'

# --- a damaged command ---------------------------------------------------------------------------
# The pack is a zstd frame (with size and checksum: a4); one byte far inside is turned over.
at=$(LC_ALL=C grep -obUaP '\x28\xb5\x2f\xfd\xa4' "$KERF" | head -n 1 | cut -d : -f 1)
cp "$KERF" "$tmp/kerf"
byte=$(dd if="$KERF" bs=1 skip=$((at + 500000)) count=1 status=none | od -An -tu1)
printf "\\x$(printf %02x $((byte ^ 255)))" |
    dd of="$tmp/kerf" bs=1 seek=$((at + 500000)) conv=notrunc status=none
KERF=$tmp/kerf expect 3 selftest
error_says 'golden vectors in this library are damaged'
finish

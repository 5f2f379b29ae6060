#!/usr/bin/env bash
# bad_configs.sh - config.json and its like as nobody should write them. One that cannot be read ends
# what would have to rewrite it with one line of error and without an output, and inspect says so; one
# that says strange things is looked at in bounded time and memory.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
limit_kib=$((192 * 1024)) limit_s=60
! grep -qa __asan_init "$KERF" || limit_kib=$((2048 * 1024)) # whose shadow memory would be counted

"$KERF" quantize "$model" -f nvfp4 --layout modelopt --only '*layers.[01].mlp*' -o "$tmp/q" 2>/dev/null
cp -r "$model" "$tmp/dense"
sound=$(cat "$tmp/q/config.json")

# --- what cannot be read ------------------------------------------------------------------------
nested() { # OPEN CLOSE TIMES
    printf '{"a":'
    printf "%0.s$1" $(seq "$3")
    printf '1'
    printf "%0.s$2" $(seq "$3")
    printf '}'
}
unreadable() { # of the file that stands in both folders: what rewrites it refuses
    local name=$1
    for verb in quantize convert dequantize; do
        case $verb in
        quantize) expect 3 quantize "$tmp/dense" -f int8 -o "$tmp/x" ;;
        convert) expect 3 convert "$tmp/q" --layout compressed-tensors -o "$tmp/x" ;;
        dequantize) expect 3 dequantize "$tmp/q" -o "$tmp/x" ;;
        esac
        check "$name: $verb names the file" grep -q 'config.json' "$tmp/err"
        absent "$tmp/x"
        rm -rf "$tmp/x"
    done
    expect 1 inspect "$tmp/q"
    output_says '^error: .*config.json'
    unread=$((unread + 1))
}
unread=0
while IFS= read -r line; do
    # shellcheck disable=SC2059 # the escapes are what is written
    printf "$line" | tee "$tmp/q/config.json" >"$tmp/dense/config.json"
    unreadable "$line"
done <<'END'

 \n
{
}
[]
[{}]
null
true
7
"text"
nonsense
{"a"}
{"a":}
{"a":1,}
{,"a":1}
{"a":1 "b":2}
{"a" 1}
{a:1}
{'a':1}
{"a":1}}
{"a":1}{}
{"a":1} x
{"a":1 // one
{"a":01}
{"a":+1}
{"a":.5}
{"a":1.}
{"a":1e}
{"a":nan}
{"a":Inf}
{"a":+Infinity}
{"a":tru}
{"a":[1,2}
{"a":{"b":1}
{"a":"b}
{"a":"\\x41"}
{"a":"\\u12"}
{"a":"\\ud800"}
{"a":"\\ud800\\u0041"}
{"a":"\001"}
{"a":"\n"}
{"a":"\377"}
{"a":"\300\200"}
{"a":"\355\240\200"}
{"a":"\364\220\200\200"}
{"\377":1}
{"a":1}\000
\357\273\277{"a":1}
\377\376{\000}\000
{"a":1,"a":2}
{"quantization_config":{},"quantization_config":{}}
{"quantization_config":
\000\000\000\000
END
for deep in "$(nested '[' ']' 3000)" "$(nested '{"a":' '}' 3000)"; do
    printf '%s' "$deep" | tee "$tmp/q/config.json" >"$tmp/dense/config.json"
    for source in dense q; do
        run dequantize "$tmp/$source" -o "$tmp/x"
        check "3,000 levels: refused, $code" test "$code" -eq 3 -o "$code" -eq 5
        absent "$tmp/x"
        rm -rf "$tmp/x"
    done
    unread=$((unread + 1))
done
echo "$unread files that cannot be read"
check "at least 50 such files" test "$unread" -ge 50

# What Python writes and JSON has not is left as it is: configs of hybrid models hold Infinity.
printf '%s' '{"time_step_limit":[0.0,Infinity],"low":-Infinity,"none":NaN,"large":1000000000000000019884624838656,"text":"NaN \" 1e",' |
    tee "$tmp/q/config.json" >"$tmp/dense/config.json"
printf '"hidden_size":256}\n' >>"$tmp/dense/config.json"
printf '%s' "$sound" | tail -c +2 >>"$tmp/q/config.json"
expect 0 quantize "$tmp/dense" -f int8 -o "$tmp/x"
same_file "$tmp/dense/config.json" "$tmp/x/config.json"
expect 0 convert "$tmp/q" --layout compressed-tensors -o "$tmp/x" -y
check "Infinity is kept" grep -q 'Infinity\],"low":-Infinity,"none":NaN,"large":1000000000000000019884624838656' "$tmp/x/config.json"
rm -rf "$tmp/x"
run inspect "$tmp/q" --json
json_is findings "[]"

# What is no file: a folder, a pipe that nobody writes to, a link to itself. 32 MiB are too much.
while read -r what; do
    for folder in q dense; do
        rm -rf "$tmp/$folder/config.json"
        case $what in
        folder) mkdir "$tmp/$folder/config.json" ;;
        pipe) mkfifo "$tmp/$folder/config.json" ;;
        loop) ln -s config.json "$tmp/$folder/config.json" ;;
        large) { printf '{"a":"' && head -c 33554432 /dev/zero | tr '\0' a && printf '"}'; } >"$tmp/$folder/config.json" ;;
        esac
    done
    for verb in "quantize $tmp/dense -f int8" "convert $tmp/q --layout compressed-tensors" "inspect $tmp/q"; do
        # shellcheck disable=SC2086
        timeout 20 "$KERF" $verb ${verb:+$([ "${verb%% *}" = inspect ] || echo "-o $tmp/x")} \
            >"$tmp/out" 2>"$tmp/err" </dev/null
        code=$?
        check "$what: ${verb%% *} ends by itself, $code" test "$code" -le 5
        rm -rf "$tmp/x"
    done
done <<'END'
folder
pipe
loop
large
END
rm -rf "$tmp/q/config.json"

# --- what can be read and is strange ------------------------------------------------------------
strange=0
look() { # NAME: quantization_config is in $tmp/value
    { printf '{"model_type":"llama","quantization_config":' && cat "$tmp/value" && printf '}\n'; } >"$tmp/q/config.json"
    code=0
    timeout "$limit_s" "$TOOLS/peak_memory" "$tmp/peak" "$KERF" inspect "$tmp/q" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
    check "$1: inspect ends as it should, $code: $(head -c 200 "$tmp/err")" test "$code" -le 1
    check "$1: inspect takes $(cat "$tmp/peak") KiB" test "$(cat "$tmp/peak")" -le "$limit_kib"
    strange=$((strange + 1))
}
while IFS= read -r line; do
    printf '%s' "$line" >"$tmp/value"
    look "$line"
    printf '{"quant_method":"modelopt","quant_algo":"W4A16_NVFP4","ignore":%s}' "$line" >"$tmp/value"
    look "ignore $line"
    printf '{"quant_method":"compressed-tensors","format":%s,"config_groups":%s,"ignore":[]}' "$line" "$line" >"$tmp/value"
    look "config_groups $line"
done <<'END'
null
true
7
-1
1e308
99999999999999999999999
"text"
[]
{}
[null]
[[[]]]
[{"a":1}]
["lm_head",1,null,["x"]]
[""]
["*"]
["re:"]
["re:("]
["re:[z-a]"]
["re:\\"]
["re:.*","re:.*","re:.*"]
["re:((a{1,255}){1,255}){1,255}"]
["re:(((m*)*)*)*x"]
["re:(m*)*(\\1)*(m|o|mo)*c\\1"]
["*m*o*d*e*l*l*a*y*e*r*s*e*m*b*e*d*t*o*k*e*n*s*x"]
["model.[a-"]
{"group_0":1}
{"group_0":{"weights":7}}
{"group_0":{"weights":{"num_bits":-4,"group_size":9223372036854775807}}}
{"group_0":{"weights":{"num_bits":"4","type":4,"symmetric":"yes"},"targets":7}}
{"group_0":{"weights":null,"input_activations":7}}
END
{ printf '{"quant_method":"modelopt","quant_algo":"W4A16_NVFP4","ignore":["'
    head -c 4000000 /dev/zero | tr '\0' '*' && printf 'x"]}'; } >"$tmp/value"
look "a pattern of 4 MB"
{ printf '{"quant_method":"modelopt","quant_algo":"W4A16_NVFP4","ignore":["re:'
    head -c 4000000 /dev/zero | tr '\0' '(' && printf 'x"]}'; } >"$tmp/value"
look "a regular expression of 4 MB"
{ printf '{"quant_method":"modelopt","quant_algo":"W4A16_NVFP4","ignore":["a"' &&
    for _ in $(seq 200000); do printf ',"re:a"'; done && printf ']}'; } >"$tmp/value"
look "200,000 patterns"
echo "$strange files that say strange things"

# The file of older exports is read where config.json says nothing, and held against it where it does.
printf '%s' "$sound" >"$tmp/q/config.json"
for text in '{' '[]' 'null' '{"quantization":7}' '{"quantization":[]}' '{"quantization":{"quant_algo":{}}}' \
    '{"quantization":{"quant_algo":"MXFP8","exclude_modules":7}}' '{"quantization":{"quant_algo":"\u0000"}}'; do
    printf '%s' "$text" >"$tmp/q/hf_quant_config.json"
    run inspect "$tmp/q"
    check "hf_quant_config.json $text: $code" test "$code" -le 1
    run convert "$tmp/q" --layout compressed-tensors -o "$tmp/x" -y
    check "hf_quant_config.json $text: convert, $code" test "$code" -eq 0
done
finish

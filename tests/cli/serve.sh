#!/usr/bin/env bash
# serve.sh - kerf serve over its own socket: every path of its OpenAPI document, the same documents as
# --json, who may ask, requests that are not as they must be, jobs to their end, cut and taken up.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v curl >/dev/null || { echo "skipped: no curl" && exit 77; }
expect 4 serve --models "$tmp/no-such"
if grep -q 'without libmicrohttpd' "$tmp/err"; then echo "skipped: no libmicrohttpd" && exit 77; fi
mkdir "$tmp/models" "$tmp/written" && cp -r "$model" "$tmp/models/tiny"
mkdir "$tmp/models/linked" && ln -s /etc/passwd "$tmp/models/linked/model.safetensors"

server=
start() { # ARGS...: the server, leader of a group of its own, its port in $port
    : >"$tmp/log"
    setsid "$KERF" serve --port 0 --models "$tmp/models" --json --drain 0 "$@" >"$tmp/log" 2>"$tmp/serve-err" &
    server=$!
    for _ in $(seq 200); do [ -s "$tmp/log" ] && break || sleep 0.05; done
    port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' "$tmp/log")
    [ -n "$port" ] || { echo "FAIL: no server: $(cat "$tmp/serve-err")" && exit 1; }
}
stop() { # it must end well
    kill -TERM "$server"
    wait "$server" && ended=0 || ended=$?
    check "the server ends with 0: $(head -n 3 "$tmp/serve-err")" test $ended -eq 0
    server=
}
trap '[ -z "$server" ] || kill -9 "$server"; cleanup' EXIT
# ask STATUS METHOD PATH [BODY [CURL...]]: the answer in $tmp/out, which must be JSON where it fails.
ask() {
    local wanted=$1 method=$2 path=$3 body=${4:-} got
    shift 3
    [ $# -eq 0 ] || shift
    set -- -s -o "$tmp/out" -w '%{http_code}' -X "$method" "$@" "http://127.0.0.1:$port$path"
    [ -z "$body" ] || set -- -H 'Content-Type: application/json' -d "$body" "$@"
    got=$(curl --max-time 20 "$@")
    checks=$((checks + 1))
    [ "$got" = "$wanted" ] || note_failure "$method $path $body: $got instead of $wanted: $(head -c 300 "$tmp/out")"
    [ "$wanted" -lt 400 ] || json_is schema kerf.error/1
}
api=/api/v1
wait_for() { # ID STATE
    for _ in $(seq 400); do
        ask 200 GET $api/jobs/"$1"
        [ "$(json state)" = "$2" ] && break || sleep 0.05
    done
    json_is state "$2"
}

start --output "$tmp/written"
# --- one server for a port, and for a folder: two would share connections, and run each job twice -----------
refused() { # TEXT ARGS...
    code=0
    timeout 20 "$KERF" serve --models "$tmp/models" --drain 0 "${@:2}" >"$tmp/out" 2>"$tmp/err" || code=$?
    check "serve ${*:2} is refused, not $code" test $code -eq 4
    error_says "$1"
}
refused 'Address already in use' --port "$port"
refused 'another kerf serve writes to it' --port 0 --output "$tmp/written/."
# --- the same documents ----------------------------------------------------------------------------
for verb in version hardware formats; do
    ask 200 GET $api/$verb
    check "$verb is that of --json" diff "$tmp/out" <("$KERF" $verb --json)
done
ask 200 POST $api/analyze '{"hardware": "h200", "rows": 4096, "cols": 4096, "format": "nvfp4", "batch": 3}'
check "analyze is predict" diff "$tmp/out" <("$KERF" predict --hardware h200 --shape 4096x4096 -f nvfp4 -b 3 --json)
ask 200 POST $api/sweep '{"hardware": "h200", "shapes": [[64, 128], [4096, 14336]], "formats": ["int8", "nvfp4"], "batches": [1, 2]}'
check "a sweep has a line for each" test "$(wc -l <"$tmp/out")" -eq 8
ask 400 POST $api/sweep '{"hardware": "l4", "shapes": [[1, 1], [536847743, 536894018]]}' # before its first line
output_says 'product 536847743x536894018: '
config=$(cat "$DATA/configs/llama-3.1-8b.json")
ask 200 POST $api/predict "{\"hardware\": \"h200\", \"formats\": [\"nvfp4\"], \"config\": $config}"
json_is type llama
ask 200 GET $api/models
json_is 'models.0.name' tiny
json_is models.# 1
ask 200 GET $api/nvml/status
json_is schema kerf.monitor/1
ask 200 GET /metrics
output_says '^kerf_http_answers_total{status="2xx"} [0-9]'
ask 200 GET / && output_says '<html lang="en">'

# --- all that is documented is there, and nothing else ------------------------------------------------
ask 200 GET $api/openapi.json
cp "$tmp/out" "$tmp/openapi.json"
json_is openapi 3.1.0
ask 200 GET $api
check "the document has every route" test "$(json routes.#)" -eq "$(grep -cE '"(get|post|delete)": \{' "$tmp/openapi.json")"
paste -d ' ' <(json 'routes.*.method') <(json 'routes.*.path') >"$tmp/routes"
while read -r method path; do
    check "$path is documented" grep -qF "\"$path\": {" "$tmp/openapi.json"
    case $path in *stream | *events) continue ;; esac
    [ "$method" = GET ] || continue
    ask "$([[ $path == *'{id}'* ]] && echo 404 || echo 200)" GET "${path/'{id}'/999}"
done <"$tmp/routes"
ask 404 GET $api/nothing
ask 404 GET /../../etc/passwd '' --path-as-is
ask 405 PUT $api/health
check "405 says which" grep -qi '^allow: GET' <(curl -sI -X DELETE "http://127.0.0.1:$port$api/health")

# --- who may ask -------------------------------------------------------------------------------------
ask 421 GET $api/health '' -H 'Host: rebound.example'
ask 421 GET $api/health '' -H "Host: 127.0.0.1:1"
ask 200 GET $api/health '' -H "Host: localhost:$port" -H "Origin: http://localhost:$port"
ask 403 GET $api/health '' -H 'Origin: https://example.org'
ask 403 GET $api/health '' -H 'Origin: null'
for page in localhost 127.0.0.1 '[::1]'; do # of port 80, which a browser leaves out
    ask 403 GET $api/health '' -H "Origin: http://$page"
done
expect 2 serve --address 0.0.0.0 --port 0
error_says 'need --token'
expect 2 serve --token short
: >"$tmp/nothing"
expect 4 serve --token "@$tmp/nothing"
error_says ': empty$'

# --- bodies ------------------------------------------------------------------------------------------
good='"hardware": "h200", "rows": 64, "cols": 64, "format": "nvfp4"'
for bad in '{' '[]' 'null' '{}' "{$good, \"more\": 1}" "{$good, \"rows\": 64}" '{"hardware": "h200"}' \
    "{\"hardware\": \"/etc/passwd\", \"rows\": 1, \"cols\": 1, \"format\": \"nvfp4\"}" \
    "{\"hardware\": \"h200\", \"rows\": 0, \"cols\": 1, \"format\": \"nvfp4\"}" \
    "{\"hardware\": \"h200\", \"rows\": 1.5, \"cols\": 1, \"format\": \"nvfp4\"}" \
    "{\"hardware\": \"h200\", \"rows\": 1e30, \"cols\": 1, \"format\": \"nvfp4\"}" \
    "{\"hardware\": \"h200\", \"rows\": \"1\", \"cols\": 1, \"format\": \"--help\"}" \
    "{\"hardware\": \"h200\\u0000\", \"rows\": 1, \"cols\": 1, \"format\": \"nvfp4\"}"; do
    ask 400 POST $api/analyze "$bad"
done
ask 415 POST $api/analyze '' -d "{$good}" -H 'Content-Type: text/plain'
ask 415 POST $api/analyze '' -d "{$good}" -H 'Content-Type: application/jsonp'
for kind in 'Application/JSON' 'application/json;charset=utf-8'; do
    ask 200 POST $api/analyze '' -d "{$good}" -H "Content-Type: $kind"
done
head -c 1100000 /dev/zero | tr '\0' ' ' >"$tmp/large"
ask 413 POST $api/analyze "@$tmp/large"
for model in ../models/tiny /etc nothing linked tiny/../linked "$(printf '日%.0s' {1..100})"; do
    body="{\"model\": \"$model\", \"formats\": [\"nvfp4\"]}"
    [[ $model == *..* || $model == /* ]] && ask 400 POST $api/score "$body" || ask 404 POST $api/score "$body"
done
if [ "$(id -u)" -ne 0 ]; then # links of a folder that cannot be listed are not known
    mkdir "$tmp/models/unlisted" && ln -s "$DATA/tiny-llama"/{config.json,model.safetensors} "$tmp/models/unlisted/"
    chmod 111 "$tmp/models/unlisted"
    ask 404 POST $api/score '{"model": "unlisted", "formats": ["nvfp4"]}'
    chmod 755 "$tmp/models/unlisted" && rm -r "$tmp/models/unlisted"
fi
# A name that is listed can be asked for, in whatever script it is.
mkdir "$tmp/models/名 é (v1)" && cp "$tmp"/models/tiny/{config.json,model.safetensors} "$tmp/models/名 é (v1)/"
ask 200 GET $api/models
json_is models.# 2
ask 200 POST $api/predict '{"hardware": "h200", "formats": ["nvfp4"], "model": "名 é (v1)"}'
ask 404 POST $api/predict '{"hardware": "h200", "formats": ["nvfp4"], "model": "名 é (v2)"}'
rm -r "$tmp/models/名 é (v1)"
# Every layout that the command writes, and no other: the refusal of a request lists them.
ask 400 POST $api/quantize '{"model": "tiny", "format": "nvfp4", "output": "x", "layout": "no-such"}'
served=$(sed -n 's/.*layout: expected \([^"]*\)".*/\1/p' "$tmp/out" | tr '|' '\n' | sort)
written=$("$KERF" quantize "$tmp/models/tiny" -f nvfp4 --layout no-such -n 2>&1 | sed 's/.*one of //; s/, /\n/g' | while read -r layout; do
    case $("$KERF" quantize "$tmp/models/tiny" -f nvfp4 --layout "$layout" -n 2>&1) in *'is read, not written'*) ;; *) echo "$layout" ;; esac
done | sort)
check "layouts of the server are those of the command" diff <(echo "$served") <(echo "$written")
ask 400 POST $api/quantize '{"model": "tiny", "format": "nvfp4", "output": "../x"}'
ask 422 POST $api/predict '{"hardware": "h200", "formats": ["nvfp4"], "config": {"model_type": 7}}'
output_says '"error": "config.json: no model_type'
check "no file that the client never named" bash -c "! grep -q 'kerf-serve-' '$tmp/out'"
# What is no good HTTP, found by the library or here: 4xx, JSON, and the connection ends. In a static command the
# library's own answers stand: an error, not always 4xx, and a page.
case $(LC_ALL=C ldd "$KERF" 2>&1) in *'not a dynamic'*) kind=static ;; *) kind=shared ;; esac
long=$(head -c 40000 "$tmp/large" | tr ' ' a) post='POST /api/v1/analyze HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
while IFS='|' read -r wanted raw; do
    # shellcheck disable=SC2059 # the escapes in it are meant
    printf "${raw/LONG/$long}" >"$tmp/request"
    : >"$tmp/raw" # the answer may come before all is sent: no signal for that
    (trap '' PIPE && exec 3<>"/dev/tcp/127.0.0.1/$port" && { cat "$tmp/request" >&3; timeout 10 cat <&3 >"$tmp/raw"; }) 2>/dev/null
    if [ $kind = static ]; then
        check "an error for $raw: $(head -n 1 "$tmp/raw")" grep -aq "^HTTP/1.1 [45]" "$tmp/raw"
        continue
    fi
    check "$wanted for $raw: $(head -n 1 "$tmp/raw")" grep -aq "^HTTP/1.1 $wanted " "$tmp/raw"
    sed '1,/^\r$/d' "$tmp/raw" >"$tmp/out"
    json_is schema kerf.error/1
    json_is status "$wanted"
done <<END
400|GET / HTTP/9.9\r\nHost: localhost\r\n\r\n
400|GET / FTP/1.1\r\nHost: localhost\r\n\r\n
400|GET /\r\n\r\n
400|PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n
400|GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n
400|GET / HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n
404|GET / x HTTP/1.1\r\nHost: localhost\r\n\r\n
404|GET /%%00 HTTP/1.1\r\nHost: localhost\r\n\r\n
414|LONG / HTTP/1.1\r\nHost: localhost\r\n\r\n
405|NO@METHOD / HTTP/1.1\r\nHost: localhost\r\n\r\n
414|GET /LONG HTTP/1.1\r\nHost: localhost\r\n\r\n
421|GET / HTTP/1.1\r\n\r\n
431|GET / HTTP/1.1\r\nHost: localhost\r\nX: LONG\r\n\r\n
400|${post}Content-Length: -5\r\n\r\n
413|${post}Content-Length: 99999999999999999999\r\n\r\n
400|${post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}
400|${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
400|${post}Transfer-Encoding: gzip\r\n\r\n
400|${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n
413|${post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n
400|${post}Transfer-Encoding: chunked\r\n\r\n2;LONG\r\n{}\r\n0\r\n\r\n
END
(exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /api' >&3 && timeout 20 cat <&3 >"$tmp/slow") &
slow=$! # looked at below

# --- jobs --------------------------------------------------------------------------------------------
ask 202 POST $api/score '{"model": "tiny", "formats": ["nvfp4:4/6"], "only": ["*layers.0.mlp*"]}'
id=$(json id)
curl -sN --max-time 20 "http://127.0.0.1:$port$api/jobs/$id/events" >"$tmp/events"
check "events end with the job" grep -q '"state":"done"' <(tail -n 3 "$tmp/events")
check "there is progress" grep -q '^event: progress' "$tmp/events"
ask 200 GET "$api/jobs/$id/result"
check "the result is that of --json" diff <(sed /source/d "$tmp/out") \
    <("$KERF" score "$tmp/models/tiny" -f nvfp4:4/6 --only '*layers.0.mlp*' --json | sed /source/d)
ask 409 POST "$api/jobs/$id/solve" '{"bits": 5}'
ask 202 POST $api/quantize '{"model": "tiny", "format": "int8", "output": "q", "only": ["*layers.0*"]}'
id=$(json id)
wait_for "$id" done
check "it was written" test -s "$tmp/written/q/model.safetensors"
ask 202 POST $api/quantize '{"model": "tiny", "format": "int8", "output": "q"}'
id=$(json id)
wait_for "$id" failed
json_is exit_code 4
ask 409 GET "$api/jobs/$id/result"
ask 200 DELETE "$api/jobs/$id" # it has ended: forgotten
ask 404 GET "$api/jobs/$id"
ask 202 POST $api/recommend '{"model": "tiny", "budget": ["5bits"], "formats": ["nvfp4", "int8"], "hardware": "h200", "only": ["*layers.0*", "*layers.1*"]}'
advice=$(json id)
ask 202 POST $api/measure '{"rows": 64, "cols": 64, "formats": ["nvfp4"]}' # waits for the processor
waits=$(json id)
ask 200 DELETE "$api/jobs/$waits"
wait_for "$waits" canceled
wait_for "$advice" done
ask 200 POST "$api/jobs/$advice/solve" '{"bits": 5}'
check "the same choice as the recommendation" diff <(json 'picks.*.codec') \
    <(curl -s "http://127.0.0.1:$port$api/jobs/$advice/result" | "$TOOLS/json_get" 'groups.*.codec')
check "within 50 ms" awk -v s="$(json seconds)" 'BEGIN { exit !(s < 0.05) }'
ask 422 POST "$api/jobs/$advice/solve" '{"bits": 1}'

ask 202 POST $api/eval '{"model": "tiny", "candidates": ["tiny"], "tokens": "tiny/eval.u16", "length": 64, "rows": "0:2"}'
evaluated=$(json id)
wait_for "$evaluated" done
ask 202 POST $api/eval '{"model": "tiny", "tokens": "tiny/eval.u16", "length": 64, "rows": "0:2", "bos": true}'
begun=$(json id)
wait_for "$begun" failed # its tokenizer has no such token
ask 200 GET "$api/jobs/$begun"
check "why: $(json error)" grep -q 'puts a token before a text' <<<"$(json error)"

wait $slow
check "a header that does not come is 408: $(head -n 1 "$tmp/slow")" grep -q '^HTTP/1.1 408 ' "$tmp/slow"

# --- cut, and taken up ---------------------------------------------------------------------------------
ask 202 POST $api/score '{"model": "tiny", "formats": ["nvfp4:*", "mxfp4:*", "int4*", "nf4*"], "zstd_level": 22}'
cut=$(json id)
wait_for "$cut" running
ask 202 POST $api/quantize '{"model": "tiny", "format": "nvfp4", "output": "later", "only": ["*layers.0*"]}'
later=$(json id)
ask 200 POST $api/analyze "{$good, \"measure\": true}" # who asks again is told of the job that waits
asked=$(json job)
ask 200 POST $api/analyze "{$good, \"measure\": true}"
json_is job "$asked"
ask 200 DELETE "$api/jobs/$asked"
many=()
for _ in $(seq 62); do # with the two 64, and no more may wait
    ask 202 POST $api/measure '{"rows": 64, "cols": 64, "formats": ["nvfp4"]}'
    many+=("$(json id)")
done
ask 429 POST $api/measure '{"rows": 64, "cols": 64, "formats": ["nvfp4"]}'
check "it says how many" grep -q '64 jobs wait already' "$tmp/out"
for id in "${many[@]}"; do ask 200 DELETE "$api/jobs/$id"; done
stop
check "the journal has both" test "$(grep -c '"id"' "$tmp/written/kerf-jobs.json")" -eq 2
start --output "$tmp/written"
ask 200 GET "$api/jobs/$cut"
ask 200 DELETE "$api/jobs/$cut"
wait_for "$later" done
check "it was written by the next server" test -s "$tmp/written/later/model.safetensors"
wait_for "$cut" canceled
stop
check "no job is left in the journal" bash -c "! grep -q '\"id\"' '$tmp/written/kerf-jobs.json'"
printf '{"jobs": [' >"$tmp/written/kerf-jobs.json" # what cannot be read is not written over
expect 3 serve --port 0 --models "$tmp/models" --output "$tmp/written"
check "a journal that is damaged stays" test "$(cat "$tmp/written/kerf-jobs.json")" = '{"jobs": ['

# --- who ends a service may tell its jobs, too ------------------------------------------------------------------
echo '{"jobs": []}' >"$tmp/written/kerf-jobs.json"
start --output "$tmp/written" --drain 20
ask 202 POST $api/score '{"model": "tiny", "formats": ["nvfp4:*", "mxfp4:*", "int4*", "nf4*"], "zstd_level": 22}'
cut=$(json id)
wait_for "$cut" running
child=$(sed -n "s/^\([0-9]*\) (.*) [A-Z] $server .*/\1/p" /proc/[0-9]*/stat 2>/dev/null)
kill -TERM "$server"
until [ "$(curl -s -o "$tmp/out" -w '%{http_code}' -H 'Content-Type: application/json' -d '{"model": "tiny", "formats": ["nvfp4"]}' \
    "http://127.0.0.1:$port$api/score")" = 503 ]; do sleep 0.02; done
kill -TERM "$child"
wait "$server" && ended=0 || ended=$?
check "the server ends with 0" test $ended -eq 0
server=
check "the journal has the job" grep -q "\"id\": $cut" "$tmp/written/kerf-jobs.json"

# --- Ctrl-C in a terminal goes to the whole group: jobs are cut all the same, and did not fail ------------------
echo '{"jobs": []}' >"$tmp/written/kerf-jobs.json"
start --output "$tmp/written" --drain 1
ask 202 POST $api/score '{"model": "tiny", "formats": ["nvfp4:*", "mxfp4:*", "int4*", "nf4*"], "zstd_level": 22}'
cut=$(json id)
wait_for "$cut" running
kill -INT -- "-$server"
wait "$server" && ended=0 || ended=$?
check "the server ends with 0" test $ended -eq 0
server=
check "the journal has the job" grep -q "\"id\": $cut" "$tmp/written/kerf-jobs.json"
rm "$tmp/written/kerf-jobs.json"

# --- a token, and nothing to write to --------------------------------------------------------------------
echo 0123456789abcdef0123 >"$tmp/token"
start --token "@$tmp/token"
ask 401 GET $api/health
ask 401 GET $api/health '' -H 'Authorization: Bearer 0123456789abcdef'
ask 401 GET $api/health '' -H 'Authorization: Bearer 0123456789abcdef0123x'
ask 200 GET $api/health '' -H 'Authorization: Bearer 0123456789abcdef0123'
ask 200 GET /
ask 422 POST $api/quantize '{"model": "tiny", "format": "nvfp4", "output": "x"}' -H 'Authorization: Bearer 0123456789abcdef0123'
stop

# --- the port that addresses need not name -----------------------------------------------------------------
if [ "$(id -u)" -eq 0 ] && ! (exec 3<>/dev/tcp/127.0.0.1/80) 2>/dev/null; then
    start --port 80
    ask 200 GET $api/health '' -H 'Host: localhost' -H 'Origin: http://localhost'
    ask 403 GET $api/health '' -H 'Origin: http://localhost:8080'
    stop
fi

# --- no more connections than --connections --------------------------------------------------------------------
start --connections 4
for n in 4 5 6 7; do eval "exec $n<>/dev/tcp/127.0.0.1/$port"; done
sleep 0.2
check "a fifth connection is refused" bash -c "! curl -s --max-time 3 -o '$tmp/out' http://127.0.0.1:$port$api/health"
exec 4>&- 5>&- 6>&- 7>&-
for _ in $(seq 100); do curl -s --max-time 3 -o "$tmp/out" "http://127.0.0.1:$port$api/health" && break || sleep 0.05; done
json_is schema kerf.health/1
stop

# --- the end: streams are whole, and it answers until the last job has ended -----------------------------------
export LD_LIBRARY_PATH=$STAND_IN${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} KERF_STAND_IN=$tmp/play
echo '0 412500 700000 clock 1980 2619 61 20480 81559 98 87 0x24 3' >"$tmp/play"
start --drain 60 # the job is canceled once the server has been asked: no moment has to be met
curl -sN --max-time 300 "http://127.0.0.1:$port$api/nvml/stream" >"$tmp/stream" &
stream=$!
ask 202 POST $api/score '{"model": "tiny", "formats": ["nvfp4:*", "mxfp4:*", "int4*", "nf4*"], "zstd_level": 22}'
id=$(json id)
wait_for "$id" running
until [ -s "$tmp/stream" ]; do sleep 0.05; done
kill -TERM "$server"
until grep -q 503 <(curl -s -o "$tmp/out" -w '%{http_code}' -H 'Content-Type: application/json' -d '{"model": "tiny", "formats": ["nvfp4"]}' \
    "http://127.0.0.1:$port$api/score") || ! kill -0 "$server" 2>/dev/null; do sleep 0.02; done
output_says 'the server ends'
ask 200 DELETE "$api/jobs/$id"
wait "$server" && ended=0 || ended=$?
check "the server ends with 0: $(head -n 3 "$tmp/serve-err")" test $ended -eq 0
server=
wait $stream
check "a stream ends in order" test $? -eq 0
check "and had readings" grep -q '^event: sample' "$tmp/stream"
finish

#!/usr/bin/env bash
# serve_load.sh - how much kerf serve bears, on the loopback of this machine.
#
#   bench/serve_load.sh KERF [-o FILE.json]      e.g. -o bench/results/serve.json
#
#   analyze   requests a second over 64 kept connections for 10 s, the time of the 99th percentile (wrk), and
#             what a request costs the server of a processor, which other work on the machine hardly changes
#   streams   resident memory with 1,000 open event streams, each of which gets a reading a second
#   mixed     SECONDS_MIXED (default 60) of requests, streams and jobs whose clients vanish at any moment:
#             resident memory at every tenth of the time, and file descriptors 40 s after (silence ends a
#             connection after 30); a line fitted to the second half says by how much memory grows
#
# STAND_IN: the folder of the tests' stand-in for the driver, where there is no GPU that could be streamed.
# Clients and server share the machine's cores. ONLY=mixed leaves the first two out: with KERF from a build
# with AddressSanitizer, or KERF="valgrind --leak-check=full --error-exitcode=9 kerf", the server's exit then
# says whether anything leaked, and speed is none of its own.
set -euo pipefail
kerf=$1 out=
[ "${2:-}" = -o ] && out=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
mkdir "$tmp/models" && cp -r "$here/../tests/data/tiny-llama" "$tmp/models/tiny"
ulimit -n 8192
[ -z "${STAND_IN:-}" ] || export LD_LIBRARY_PATH=$STAND_IN KERF_STAND_IN=$tmp/play
echo "0 412500 700000 clock 1980 2619 61 20480 81559 98 87 0x24 3" >"$tmp/play"
# shellcheck disable=SC2086 # it may be a tool with its options
$kerf serve --port 0 --models "$tmp/models" --connections 4000 --drain 0 --json >"$tmp/log" 2>"$tmp/err" &
server=$!
trap 'kill -9 $server 2>/dev/null || true; rm -rf "$tmp"' EXIT
for _ in $(seq 600); do [ -s "$tmp/log" ] && break || sleep 0.1; done
port=$(sed -n 's/.*"port": \([0-9]*\).*/\1/p' "$tmp/log")
cat >"$tmp/analyze.lua" <<'END'
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"hardware":"h200","rows":4096,"cols":4096,"batch":1,"format":"nvfp4"}'
END
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
ticks=$(cpu_ticks)
[ "${ONLY:-}" = mixed ] || wrk -t 1 -c 64 -d "${WRK_S:-10}" --latency -s "$tmp/analyze.lua" "http://127.0.0.1:$port/api/v1/analyze" >"$tmp/wrk"
touch "$tmp/wrk"
ticks=$(($(cpu_ticks) - ticks))
python3 -B - "$port" "$server" "${SECONDS_MIXED:-60}" "$tmp/wrk" "${out:-/dev/null}" "$ticks" "$kerf" <<'END'
import json, os, platform, random, re, socket, sys, time

port, pid, seconds, wrk, out = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), open(sys.argv[4]).read(), sys.argv[5]

def resident():
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def descriptors():
    return len(os.listdir(f"/proc/{pid}/fd"))

def send(text):
    s = socket.create_connection(("127.0.0.1", port), timeout=10)
    s.sendall(text)
    return s

def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

def post(path, body):
    text = json.dumps(body)
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

def milliseconds(name):
    number, unit = re.search(name + r"\s+([\d.]+)(us|ms|s)", wrk).groups()
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]

doc = {"schema": "kerf.bench/1", "bench": "serve", "command": f"bench/serve_load.sh {' '.join(os.path.basename(w) for w in sys.argv[7].split())}, STAND_IN for the GPU",
       "machine": {"cpu": re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()).group(1), "cores": os.cpu_count(),
                   "system": platform.release(), "load_before": os.getloadavg()[0]}}
files = descriptors()
if wrk:
    failed = re.search(r"Non-2xx.*: (\d+)", wrk)
    doc["analyze"] = {"connections": 64, "requests_per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", wrk).group(1)),
                      "server_cpu_us_per_request": round(int(sys.argv[6]) / os.sysconf("SC_CLK_TCK") * 1e6 / int(re.search(r"(\d+) requests in", wrk).group(1)), 1),
                      "p50_ms": milliseconds("50%"), "p99_ms": milliseconds("99%"), "failed": int(failed.group(1)) if failed else 0}
    before = resident()
    streams = [send(get("/api/v1/nvml/stream")) for i in range(1000)]
    time.sleep(5)
    answered = sum(s.recv(4096).startswith(b"HTTP/1.1 200") for s in streams)
    doc["streams"] = {"open": answered, "resident_bytes": resident(), "resident_bytes_before": before}
    for s in streams:
        s.close()
    time.sleep(2)
rng, began, tenths, sent, late_answers = random.Random(1), time.time(), [], 0, 0
asks = [get("/api/v1/formats"), get("/api/v1/hardware"), get("/metrics"), get("/api/v1/nvml/stream"), get("/api/v1/jobs"), get("/"),
        post("/api/v1/analyze", {"hardware": "h200", "rows": 4096, "cols": 4096, "format": "nvfp4"}),
        post("/api/v1/sweep", {"hardware": "b200", "shapes": [[n, 4096] for n in range(64, 65 * 64, 64)]}),
        post("/api/v1/score", {"model": "tiny", "formats": ["nvfp4"], "only": ["*layers.0.mlp.up*"]}), b"\x16\x03\x01 nonsense\r\n\r\n"]
held = []
while time.time() - began < seconds:
    text = rng.choice(asks)
    whole = rng.random() < 0.7 and not text.startswith(b"\x16")
    try:
        s = send(text if whole else text[:rng.randrange(1, len(text))])
        sent += 1
        fate = rng.random()
        if fate < 0.3:
            s.close()                               # without a look at the answer
        elif fate < 0.5 and whole:
            s.recv(rng.randrange(1, 2000)), s.close()  # in the middle of it
        else:
            held.append(s)
    except OSError:  # on a machine that has other things to do it waits too long, and vanishes too
        late_answers += 1
    if len(held) > 200:
        held.pop(rng.randrange(len(held))).close()
    if time.time() - began >= seconds / 10 * (len(tenths) + 1):
        tenths.append(resident())
for s in held:
    s.close()
time.sleep(40)
while len(tenths) < 10:
    tenths.append(resident())
late = tenths[5:]
slope = sum((i - 2) * y for i, y in enumerate(late)) / 10  # of the least squares, bytes a tenth
doc["mixed"] = {"seconds": seconds, "clients": sent, "waited_over_10_s": late_answers, "resident_bytes_at_tenths": tenths,
                "growth_bytes_per_minute": round(slope / (seconds / 10) * 60), "descriptors_before": files, "descriptors_after": descriptors()}
with open(out, "w") as f:
    f.write(json.dumps(doc, indent=1) + "\n")
print(json.dumps(doc, indent=1))
END
kill -TERM $server
wait $server && echo "the server ended well" || { echo "the server ended with $?: $(head -n 40 "$tmp/err")" && exit 1; }

#!/usr/bin/env bash
# monitor.sh - kerf monitor beside a stand-in for NVIDIA's driver, which plays readings and faults:
# the live table, lines for programs, and the energy of a command.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [ ! -e /proc/driver/nvidia ] && [ ! -e /sys/class/powercap/intel-rapl:0 ]; then
    expect 6 monitor -n 1
    error_says 'nothing to monitor: no NVIDIA driver here'
    expect 6 monitor --json -n 1
    json_is exit_code 6
    expect 6 monitor -- touch "$tmp/ran"
    absent "$tmp/ran"
fi

export LD_LIBRARY_PATH=$STAND_IN${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} KERF_STAND_IN=$tmp/play
play() { printf '%s\n' "$@" >"$tmp/play"; }
play '0 412500 700000 5000 1980 2619 61 20480 81559 98 87 0x24 3' '0 100000 700000 5100 1200 2619 60 20480 81559 5 1 0 3' \
    '1 70000 700000 - 345 2619 30 4 81559 0 0 1 0' '1 lost'

expect 0 monitor --json -n 3 --interval 0.02
check "three lines" test "$(wc -l <"$tmp/out")" -eq 3
head -n 1 "$tmp/out" >"$tmp/line" && sed -n 2p "$tmp/out" >"$tmp/second" && mv "$tmp/line" "$tmp/out"
json_is schema kerf.monitor/1
json_is sources.0.power_w 412.5
json_is sources.0.throttles.0 power-cap
json_is sources.0.throttles.1 heat
json_is sources.0.processes.# 3
json_is sources.1.lost null
json_is sources.1.energy_j null
mv "$tmp/second" "$tmp/out"
json_is sources.0.sm_mhz 1200.0
json_is sources.1.lost 'GPU is lost'
json_is sources.1.power_w null

expect 0 monitor --csv -n 2 --interval 0.02
check "a heading and four rows" test "$(wc -l <"$tmp/out")" -eq 5
check "every row has the cells of the heading" test "$(awk -F, '{ print NF }' "$tmp/out" | sort -u | wc -l)" -eq 1
output_says ',power-cap heat,0$'
output_says ',1$'

expect 0 monitor -n 2 --interval 0.02
output_says 'driver 580.00'
output_says 'lost: GPU is lost'
check "no screen is cleared where there is none" bash -c "! grep -q $'\033' '$tmp/out'"
if command -v script >/dev/null; then
    for columns in 44 80 132; do
        script -qec "stty cols $columns rows 12; '$KERF' monitor -n 2 --interval 0.02" /dev/null </dev/null |
            tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[mKHJ]//g' >"$tmp/screen"
        check "the table fits $columns columns" awk -v most="$columns" 'length($0) > most { exit 1 }' "$tmp/screen"
        check "it is there at $columns" grep -q '^gpu0' "$tmp/screen"
    done
fi

# --- a command -----------------------------------------------------------------------------------
play '0 300000 700000 clock 1980 2619 61 20480 81559 98 87 0 0'
run monitor --idle 0.1 -o "$tmp/e.json" -- sh -c 'cat >/dev/null; sleep 0.3; echo of the command; exit 7' -
check "its exit code is passed on" test "$code" -eq 7
check "standard output is the command's" test "$(cat "$tmp/out")" = 'of the command'
error_says '^sh: 0\.[0-9]* s, exit code 7'
error_says 'gpu0 .* 300\.0 '
error_says 'too coarse for so short a command'
cp "$tmp/e.json" "$tmp/out"
json_is schema kerf.monitor-command/1
json_is exit_code 7
json_is command.0 sh
json_is sources.0.peak_w 300.0
check "joules are power times time" awk -v j="$(json sources.0.joules)" -v s="$(json seconds)" \
    'BEGIN { exit !(j > 300 * (s - 0.15) && j < 300 * (s + 0.15)) }'
run monitor -o "$tmp/e.json" -- touch "$tmp/ran"
check "an output that exists is refused first" test "$code" -eq 4
absent "$tmp/ran"
run monitor --idle 0 -q -- sh -c 'kill -9 $$'
check "a command that is killed" test "$code" -eq 137
check "nothing is said under -q" test ! -s "$tmp/err"
run monitor --idle 0 -- "$tmp/no-such-command"
check "a command that cannot be started" test "$code" -eq 127
error_says 'No such file'
"$KERF" monitor --idle 0 -- sh -c 'trap "exit 9" TERM; touch '"$tmp"'/up; while :; do sleep 0.05; done' 2>"$tmp/err" &
for _ in $(seq 100); do [ -e "$tmp/up" ] && break || sleep 0.05; done
kill -TERM $!
wait $!
check "a signal reaches the command" test $? -eq 9

expect 2 monitor --json --csv
expect 2 monitor --json -- true
expect 2 monitor -o "$tmp/x.json"
expect 2 monitor --interval 0
error_says 'expected seconds'
expect 2 monitor --interval soon
play 'init 9'
expect 6 monitor
error_says 'Driver Not Loaded'
finish

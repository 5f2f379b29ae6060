#!/usr/bin/env bash
# mpi_hosts.sh - kerf-mpi over four hosts that are network namespaces of this machine: ranks have nothing in common
# but a file system and TCP over a bridge. Root, iproute2 and Open MPI.
#
#   mpi_hosts.sh KERF FOLDER    equal bytes over 1, 2, 3, 4 and 8 ranks, of an output and a calibration; a host
#                               that is cut off while it works
#
# mpirun reaches a host as it would by ssh: its agent is this script.
set -euo pipefail
hosts=4 net=10.77.0
if [ "${1:-}" = --agent ]; then # ADDRESS COMMAND: what ssh would do; a host has a name of its own, too
    n=${2##*.}
    shift 2
    exec ip netns exec "kerf$n" unshare -u sh -c "hostname kerf$n && exec sh -c \"\$0\"" "$*"
fi
kerf=$(realpath "${1:?usage: mpi_hosts.sh KERF FOLDER}") folder=$(realpath "${2:?FOLDER}")
self=$(realpath "${BASH_SOURCE[0]}")
down() {
    for n in $(seq $hosts); do
        ip netns pids "kerf$n" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
        ip netns del "kerf$n" 2>/dev/null || true
    done
    ip link del kerfbridge 2>/dev/null || true
}
trap down EXIT
down
ip link add kerfbridge type bridge
ip addr add $net.254/24 dev kerfbridge
ip link set kerfbridge up
for n in $(seq $hosts); do
    ip netns add "kerf$n"
    ip link add "kerfv$n" type veth peer name eth0 netns "kerf$n"
    ip link set "kerfv$n" master kerfbridge up
    ip -n "kerf$n" addr add "$net.$n/24" dev eth0
    ip -n "kerf$n" link set eth0 up
    ip -n "kerf$n" link set lo up
done
# mpirun runs on the bridge; no shared memory between ranks, and no address but those of the hosts. A host that no
# longer answers is to be noticed in seconds, not in minutes.
ranks() { # N ARGS...
    timeout -k 10 120 mpirun --allow-run-as-root --oversubscribe -q --map-by node -H $net.1:8,$net.2:8,$net.3:8,$net.4:8 \
        --mca plm_rsh_agent "$self --agent" --mca btl tcp,self --mca btl_tcp_if_include $net.0/24 \
        --mca oob_tcp_if_include $net.0/24 --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 \
        --mca oob_tcp_keepalive_probes 3 -n "$1" "$(dirname "$kerf")/kerf-mpi" "${@:2}" </dev/null
}

model=$(dirname "$self")/../tests/data/tiny-llama
args=(quantize "$model" -f nvfp4 --layout modelopt --shard-size 200KB -q -j 1)
cd "$folder" && rm -rf whole sweep cal out out.kerf-parts
"$kerf" "${args[@]}" -o whole
for n in 1 2 3 4 8; do
    ranks $n "${args[@]}" -o out
    diff -r whole out && echo "$n ranks: the bytes of one process"
    rm -rf out
done
cal=(calibrate "$model" --tokens "$model/eval.u16" --rows 0:32 --alpha-by none --gram -j 1)
"$kerf" "${cal[@]}" -o cal >/dev/null
ranks 4 "${cal[@]}" -o out >/dev/null
diff -r cal out && echo "4 ranks: the calibration of one process"
rm -rf out

# A host is cut off while it works: its cable, not its processes.
heavy=(quantize "$model" -f nvfp4:sweep --layout modelopt --shard-size 200KB -q -j 1 --resume)
"$kerf" "${heavy[@]}" -o sweep
code=0
(
    while [ ! -e out.kerf-parts ]; do sleep 0.02; done
    ip link set kerfv3 down
) &
ranks 4 "${heavy[@]}" -o out || code=$?
kill $! 2>/dev/null || true
echo "a host is cut off: exit code $code, output $([ -e out ] && echo there || echo absent), $(ls out.kerf-parts 2>/dev/null | wc -l) parts finished"
ip netns pids kerf3 | xargs -r kill -9 || true
ip link set kerfv3 up
[ -e out ] || ranks 3 "${heavy[@]}" -o out
diff -r sweep out && echo "after the next run: the bytes of one process"
rm -rf whole sweep cal out

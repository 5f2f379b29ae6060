# parts_lib.sh - what the tests of outputs in parts share: quantize, score and calibrate differ in what a
# part holds, not in how parts are killed, merged, refused and run by Slurm. Sourced in place of lib.sh;
# leaves the test in a room of its own, where the output of each run of parts is "out".
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir "$tmp/room" && cd "$tmp/room" || exit 70

# parts_killed ROUNDS LONGEST ARGS...: the three parts of a run, each killed after less than LONGEST ms, which
# grow with the round.
parts_killed() {
    local rounds=$1 longest=$2 round i pid
    shift 2
    for round in $(seq "$rounds"); do
        for i in 1 2 3; do
            "$KERF" "$@" -o out --part $i/3 --resume >/dev/null 2>&1 &
            pid=$!
            sleep "0.$(printf '%03d' $((RANDOM % (longest * round))))"
            kill -9 $pid 2>/dev/null
            wait $pid 2>/dev/null
        done
    done
}

# fresh: the three parts again, as a copy of those that were kept in done.kerf-parts.
fresh() {
    rm -rf out out.kerf-parts
    cp -r done.kerf-parts out.kerf-parts
}

# refused PATTERN: the merge says so, and there is no output.
refused() {
    expect 3 merge out
    error_says "$1"
    check "no output: $1" test ! -e out
}

# merged_at_once: three merges of the same parts, one of which makes the output.
merged_at_once() {
    local i
    for i in 1 2 3; do "$KERF" merge -q out >/dev/null 2>"merge-$i" & done
    wait
    check "one of three merges at once makes the output" diff -r whole out
    check "the others say a line: $(cat merge-?)" test "$(cat merge-? | wc -l)" -eq 2
}

# slurm N OUT ARGS...: the script that users give to Slurm, with a stand-in for its command that runs the jobs
# one after the other, and prints the number of an array and its cluster as --parsable does.
slurm() {
    mkdir -p bin
    ln -sf "$KERF" bin/kerf
    cat >bin/sbatch <<'END'
#!/usr/bin/env bash
for a; do
    case $a in
    --array=1-*) n=${a#--array=1-} ;;
    --dependency=afterok:4711) after=1 ;;
    --wrap) wrap=1 ;;
    --*) ;;
    *)  [ -z "${wrap:-}" ] || { [ -n "${after:-}" ] && exec bash -c "$a"; }
        while [ "$1" != "$a" ]; do shift; done
        for i in $(seq "$n"); do
            SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_PER_TASK=1 bash "$@" >&2 || exit
        done
        echo '4711;cluster'
        exit ;;
    esac
done
END
    chmod +x bin/sbatch
    env PATH="$PWD/bin:$PATH" bash "$DATA/../../cli/slurm_parts.sh" "$@" 2>/dev/null
}

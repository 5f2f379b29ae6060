#!/usr/bin/env bash
# quota.sh - by default there are as many threads as the process may use: by its affinity, and by the quota
# of its cgroup, a real one that is made for this. Where none can be made (not root, a container, a single
# processor) only the affinity is checked.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# threads_under COMMAND...: how many threads kerf takes when COMMAND starts it.
jobs=()
threads_under() {
    "$@" "$KERF" bench gemv -f int8 --shape 64x64 -n 1 --json "${jobs[@]}" >"$tmp/out" 2>"$tmp/err" </dev/null &&
        json machine.threads
}

# make_group: a cgroup below the root of the controller of processors, of version 1 or 2, in $group.
make_group() {
    local base=/sys/fs/cgroup
    [ "$(id -u)" -eq 0 ] || return 1
    if [ -e $base/cpu/cpu.shares ] || [ -e $base/cpu/tasks ]; then
        base=$base/cpu
    elif ! grep -qw cpu $base/cgroup.subtree_control 2>/dev/null; then
        return 1 # version 2, whose root gives this controller to nobody
    fi
    group=$base/kerf-quota-$$
    mkdir "$group" 2>/dev/null || return 1
    trap 'rmdir "$group"; cleanup' EXIT
}

# quota MICROSECONDS: what the group may use in every 100,000 of them.
quota() {
    if [ -e "$group/cpu.max" ]; then
        echo "$1 100000" >"$group/cpu.max"
    else
        echo 100000 >"$group/cpu.cfs_period_us" && echo "$1" >"$group/cpu.cfs_quota_us"
    fi 2>/dev/null
}

# inside COMMAND...: in the group.
# shellcheck disable=SC2317 # threads_under calls it
inside() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }

all=$(nproc)
first=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
check "all processors that nproc counts" test "$(threads_under env)" = "$all"
check "an affinity of one" test "$(threads_under taskset -c "$first")" = 1
if [ "$all" -gt 1 ] && make_group && quota 50000; then
    check "half a processor is one thread" test "$(threads_under inside)" = 1
    jobs=(-j 2)
    check "-j says otherwise" test "$(threads_under inside)" = 2
    jobs=()
    quota 110000
    check "a quota is rounded up" test "$(threads_under inside)" = 2
    quota $(((all + 1) * 100000))
    check "a quota above all processors" test "$(threads_under inside)" = "$all"
    echo "quotas of $group"
else
    echo "no cgroup could be made: quotas are left to test_cgroup"
fi
finish

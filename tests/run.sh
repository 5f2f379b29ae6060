#!/usr/bin/env bash
# run.sh - builds kerf with its tests and runs them; installs what is missing. Without options: gcc,
# optimized, all that proves the product, in some four minutes of two cores. Each option names a
# configuration with a build folder of its own.
#
#   bash tests/run.sh [--quick] [--native] [--asan] [--clang] [--cuda] [--aarch64] [--all] [-j N]
#   bash tests/run.sh --gpu | --exhaustive | --mutation | --coverage | --peers
#   bash tests/run.sh --faults | --fuzz SECONDS | --tsan
#
#   --quick     the unit tests that take a second or two, in a minute with the build
#   --native    gcc, optimized, every test: also those labelled slow, which build kerf again with
#               other compilers or another format, count instructions, kill it, read with packages
#   --asan      clang with AddressSanitizer and UndefinedBehaviorSanitizer, without OpenMP (leaks of
#               libomp itself, and threads of it that LeakSanitizer cannot trace, would fail it);
#               the threads of streams and teams are pthreads and stay
#   --clang     clang, optimized; not part of --all, whose clang is --asan
#   --cuda      the CUDA backend compiles to PTX and links, and rows of it to the machine code of
#               every architecture that a release has; a GPU is not needed
#   --aarch64   cross-build for 64-bit Arm, unit tests under qemu-user
#   --all       native, asan, cuda and aarch64, as CI does; each is built while the one before it is tested
#   -j N        parallel jobs (default: all cores)
#
# Longer work, never part of --all:
#   --gpu         the CUDA backend on this machine's GPU: all bytes, compute-sanitizer, speed
#   --exhaustive  every input of every conversion, every block rule, the laws (half an hour)
#   --mutation    a seeded fault at a time in codecs/ or the advisor: some test must fail for each
#   --coverage    lines and branches of codecs/scalar and codecs/block
#   --faults      every call of every verb fails, once and for good; the power goes after every call;
#                 1,000 kills; other programs (ten minutes of two cores, and a line for each part; faults.json)
#   --fuzz S      hostile files for S seconds of one core, by clang with AddressSanitizer and
#                 UndefinedBehaviorSanitizer (bench/results/fuzz.json)
#   --tsan        clang with ThreadSanitizer, without OpenMP: streams, team, cancel, calibrate, the
#                 monitor, the server
#   --peers       the packages that encoders are named after, compared live (PyTorch: 6 GB)
#
# Stops at the first configuration that fails. The last line counts the tests.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cmake/packages.sh
export OMP_WAIT_POLICY=passive # many small programs at once: threads that spin cost the others

usage() { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' tests/run.sh; }

configurations=() jobs=$(nproc) seconds=0
while [ $# -gt 0 ]; do
    case $1 in
    --quick | --native | --asan | --clang | --cuda | --aarch64 | --gpu | \
        --exhaustive | --mutation | --coverage | --peers | --faults | --tsan) configurations+=("${1#--}") ;;
    --fuzz) configurations+=(fuzz) && seconds=${2:?--fuzz needs a number of seconds} && shift ;;
    --all) configurations=(native asan cuda aarch64) ;;
    -j) jobs=${2:?-j needs a number} && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done
[ ${#configurations[@]} -gt 0 ] || configurations=(default)

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# Debian's arm64 packages of the libraries, unpacked into a folder: the system is not touched and
# no rights are needed. The release is this system's own.
fill_sysroot() {
    local root=$PWD/build/sysroot-aarch64
    [ -e "$root/complete" ] && return 0
    rm -rf "$root" && mkdir -p "$root"/apt/{lists/partial,archives/partial}
    local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
        -o APT::Sandbox::User=root -o Dir::State="$root/apt" -o Dir::State::status=/dev/null
        -o Dir::Cache="$root/apt")
    show "${apt[@]}" update || true # sources without arm64 do not matter
    (cd "$root/apt" && show "${apt[@]}" download libzstd1 libzstd-dev libjansson4 libjansson-dev \
        libcmocka0 libcmocka-dev) || return 1
    for deb in "$root"/apt/*.deb; do dpkg -x "$deb" "$root" || return 1; done
    rm -rf "$root/apt" && touch "$root/complete"
}

# Loops for AVX-512 are a quarter of a build. Where the processor cannot run them, the native build
# compiles them and the others do without.
lean=()
grep -qs avx512bw /proc/cpuinfo || lean=(-DKERF_AVX512=OFF)

passed=0 failed=0 skipped=0

# Adds the counts of a JUnit file to the totals.
count_tests() {
    local attribute values=()
    for attribute in tests failures skipped disabled; do
        values+=("$(sed -n "s/^[[:space:]]*$attribute=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1)")
    done
    local skip=$((values[2] + values[3]))
    passed=$((passed + values[0] - values[1] - skip))
    failed=$((failed + values[1]))
    skipped=$((skipped + skip))
}

# Where there is ninja it builds: it waits for no target where a file of another one can be compiled.
# build_tests BUILD PRESET [CMAKE OPTION...]; what is built: targets, or all
targets=()
build_tests() {
    local build=$1 preset=$2 generate=()
    shift 2
    if [ ! -e "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then # a folder keeps what it has
        generate=(-G Ninja)
    fi
    show cmake --preset "$preset" -B "$build" "${generate[@]}" --log-level=WARNING -DKERF_WERROR=ON "$@" &&
        show cmake --build "$build" -j "$jobs" ${targets[0]:+--target "${targets[@]}"}
}

# Tests leave processors idle: some wait, some must run alone. The next configuration is built in these
# gaps, at the lowest priority, so that it takes nothing from what is tested; what the build says is
# printed when its turn has come.
#
# step   "both", or "build" in the process that builds ahead: run_tests then tests nothing
# ahead  the configuration that is built ahead, its process
step=both ahead='' ahead_pid=''
build_ahead() {
    case ${1:-} in native | asan | clang | cuda | aarch64) ;; *) return 0 ;; esac # those made of run_tests
    ahead=$1
    mkdir -p build
    set -m # a process group of its own, to be ended as a whole
    (step=build targets=() && renice -n 19 -p "$BASHPID" >/dev/null && run_configuration "$1") \
        >"build/$1.log" 2>&1 &
    ahead_pid=$!
    set +m
}
trap '[ -z "$ahead_pid" ] || kill -- "-$ahead_pid" 2>/dev/null' EXIT

# built_ahead: waits until what is built ahead is; its success.
built_ahead() {
    local built=0 log=build/$ahead.log
    wait "$ahead_pid" || built=1
    ahead='' ahead_pid=''
    cat "$log" && rm "$log"
    return $built
}

# run_tests NAME PRESET "CTEST OPTIONS" [CMAKE OPTION...]; what is built: targets, or all
run_tests() {
    local name=$1 build=build/test-$1 preset=$2 filter=$3
    shift 3
    local status=0
    case $filter in --preset*) build=build/$preset ;; esac # its tests are looked for there
    if [ $step = build ]; then
        build_tests "$build" "$preset" "$@"
        return
    fi
    if [ "$name" = "$ahead" ]; then built_ahead; else build_tests "$build" "$preset" "$@"; fi || {
        echo "this configuration does not build: that counts as one failed test"
        failed=$((failed + 1))
        return 1
    }
    build_ahead "$following"
    # shellcheck disable=SC2086 # options are words
    show ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error \
        --output-junit junit.xml $filter || status=1
    if [ -e "$build/junit.xml" ]; then
        count_tests "$build/junit.xml"
    else
        echo "ctest ended without a report: that counts as one failed test"
        failed=$((failed + 1))
    fi
    return $status
}

# run_script COMMAND...: longer work that counts as one test.
run_script() {
    if show "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        return 1
    fi
}

run_cuda() {
    export PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
    if ! command -v nvcc >/dev/null; then
        echo "skipped: no nvcc"
        skipped=$((skipped + 1))
        return 0
    fi
    # Whether it compiles and links does not depend on how well, and all kernels well take 25 minutes
    # of a core: what newer compilers can leave out is left out, and so are the vectors of the processor,
    # which the native build has. Machine code of some rows is made by the test architectures.
    local flags=-O1 # of the host: what -O0 leaves of headers would be in the library
    if grep -q -e --Ofast-compile <<<"$(nvcc --help)"; then flags+=" --Ofast-compile=max"; fi
    local quick=(-DKERF_AVX512=OFF -DKERF_QUICK=ON -DKERF_MPI=OFF -DCMAKE_BUILD_TYPE=Debug
        -DCMAKE_C_FLAGS_DEBUG=-O1 -DCMAKE_CXX_FLAGS_DEBUG=
        "-DCMAKE_CUDA_FLAGS_DEBUG=$flags" -DCMAKE_CUDA_ARCHITECTURES=90a-virtual)
    local targets=(kerf kerf_shared kerf_static kerf_man gpu_programs)
    run_tests cuda cuda "-R ^(gpu_|symbols|install|selftest|architectures)" "${quick[@]}"
}

run_gpu() {
    local status=0
    show bash tests/gpu/run_gpu.sh --sanitize --bench || status=$?
    case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) && return 1 ;;
    esac
}

run_faults() {
    show cmake --preset cpu-only -B build/test-native --log-level=WARNING &&
        show cmake --build build/test-native -j "$jobs" --target kerf fault_shim fault_planted &&
        run_script python3 -B tests/fault/faults.py build/test-native -j "$jobs" \
            --json bench/results/faults.json
}

run_fuzz() {
    show cmake --preset asan -B build/test-fuzz --log-level=WARNING "${lean[@]}" \
        -DKERF_SANITIZE=address,undefined,fuzzer-no-link &&
        show cmake --build build/test-fuzz -j "$jobs" --target fuzz_reader fuzz_index fuzz_command fuzz_json \
            fuzz_tokenizer fuzz_request &&
        run_script python3 -B tests/fuzz/fuzz.py build/test-fuzz "$seconds" --json bench/results/fuzz.json
}

# What starts threads: the readers, encoders and writers of streams, teams, cancel, packing, scores. Not
# test_threads, in which threads cannot be made: ThreadSanitizer's own library does not survive that.
tsan_tests="test_quantize_api test_quantize_cancel test_file_seekable test_file_roundtrip test_score_api
    test_verify_api test_advise_api test_matrix_api test_calibrate test_monitor test_ranks test_tokens"
run_tsan() {
    local tests=$tsan_tests tools="json_get make_gguf make_malformed make_model peak_memory spoil nvml_stand_in"
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    # shellcheck disable=SC2086 # words
    show cmake --preset asan -B build/test-tsan --log-level=WARNING "${lean[@]}" -DKERF_SANITIZE=thread &&
        show cmake --build build/test-tsan -j "$jobs" --target kerf $tools $tests &&
        run_script ctest --test-dir build/test-tsan -j "$jobs" --output-on-failure --no-tests=error \
            -R "^($(echo $tests | tr ' ' '|')|cli_(quantize|convert|score|verify|unreadable|signals|calibrate|monitor|serve))\$"
}

build_release() {
    show cmake --preset release -B build/test-release --log-level=WARNING -DKERF_TESTS=ON \
        -DKERF_CUDA=OFF -DKERF_CUDA_ORACLE=ON && show cmake --build build/test-release -j "$jobs"
}

run_exhaustive() {
    local name
    build_release || return 1
    run_script bash tests/build/determinism.sh --all build/test-release/kerf || return 1
    for name in exhaustive_scalar exhaustive_scales exhaustive_blocks properties; do
        run_script "build/test-release/tests/exhaustive/$name" --full || return 1
    done
}

# The tests labelled build look at the sources or build them again by themselves, and the slow
# ones gain nothing from a second run: both belong to the native configuration alone.
run_configuration() {
    case $1 in
    default) run_tests native cpu-only "-LE slow" ;;
    quick)
        local targets=(quick_tests)
        run_tests quick quick "--preset quick"
        ;;
    native) run_tests native cpu-only "" ;;
    asan) run_tests asan asan "-LE build|slow" "${lean[@]}" ;;
    clang) run_tests clang cpu-only "-LE build|slow" -DCMAKE_C_COMPILER=clang ;;
    cuda) run_cuda ;;
    gpu) run_gpu ;;
    exhaustive) run_exhaustive ;;
    mutation) run_script bash tests/mutation/mutation.sh ;;
    coverage) run_script bash tests/coverage.sh ;;
    faults) run_faults ;;
    fuzz) run_fuzz ;;
    tsan) run_tsan ;;
    peers)
        build_release &&
            run_script bash tests/golden/peers/run_peers.sh build/test-release/libkerf.so
        ;;
    aarch64)
        fill_sysroot &&
            run_tests aarch64 aarch64 "-L unit -LE slow" "-DKERF_SYSROOT=$PWD/build/sysroot-aarch64"
        ;;
    esac
}

packages=("${build_packages[@]}" "g++=g++" "pc:cmocka=libcmocka-dev" "zstd=zstd"
    "patch=patch" "jq=jq"
    "mpicc=libopenmpi-dev" "mpirun=openmpi-bin")
case " ${configurations[*]} " in *" clang "* | *" asan "* | *" fuzz "* | *" tsan "*)
    packages+=("clang=clang" "deb:libomp-dev=libomp-dev" "deb:libclang-rt-14-dev=libclang-rt-14-dev")
    export KERF_COMPILERS="gcc clang" # which the determinism test must then use
    ;;
esac
case " ${configurations[*]} " in *" faults "* | *" fuzz "*) packages+=("python3=python3") ;; esac
case " ${configurations[*]} " in *" aarch64 "*)
    packages+=("aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu" "ninja=ninja-build"
        "/usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross" "qemu-aarch64=qemu-user")
    ;;
esac
need_packages "${packages[@]}" || exit 1

status=0
for i in "${!configurations[@]}"; do
    configuration=${configurations[i]} following=${configurations[i + 1]:-}
    printf '\n=== %s ===\n' "$configuration"
    start=$SECONDS
    run_configuration "$configuration" || status=1
    [ "$configuration" != "$ahead" ] || built_ahead || status=1 # one that tests nothing here
    echo "$configuration: $((SECONDS - start)) s"
    [ $status -eq 0 ] || break
done
echo
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] || echo ", $skipped skipped")"
exit $status

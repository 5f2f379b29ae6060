#!/usr/bin/env bash
# cross.sh - libkerf and the command for another system, with all other libraries inside: nothing but the
# system's own C library is asked for. Compiled by zig cc, from Debian's sources of those libraries.
#
#   cross.sh TARGET [--test]
#
#   x86_64-linux-gnu.2.28, aarch64-linux-gnu.2.28   libraries of wheels
#   x86_64-linux-musl, aarch64-linux-musl           a static command, and its tarball
#   aarch64-macos                                   compiled and linked; never run
#   --test    builds the tests as well and runs those labelled unit and cli, where TARGET is this machine's
#
# Leaves build/cross/TARGET/out, and for musl build/release/kerf-VERSION-TARGET.tar.gz. Needs apt-get on
# Debian, dpkg-dev, cmake, ninja, and python3 with venv. From the environment: ZIG="COMMAND", another zig than
# PyPI's ziglang; OPTIONS="-DKERF_AVX512=OFF", more of CMake's for kerf; KERF_HOST_BUILD, a build for this machine
# where TARGET is another: without it the one for musl is made first.
set -euo pipefail
target=${1:?usage: cross.sh TARGET [--test]} tests=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/build/cross jobs=${JOBS:-$(nproc)}
mkdir -p "$work" && export ZIG_GLOBAL_CACHE_DIR=$work/zig-cache

if [ -z "${ZIG:-}" ]; then
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m ziglang version >/dev/null 2>&1 ||
        "$work/venv/bin/python" -m pip -q install ziglang==0.17.1
    ZIG="$work/venv/bin/python -m ziglang"
fi

# Sources of this machine's release, by a list of our own: the system's is not touched.
fetch_sources() {
    local apt=$work/apt codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    [ -e "$work/sources/complete" ] && return
    rm -rf "$work/sources" && mkdir -p "$apt"/{lists/partial,archives/partial} "$work/sources"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "http://deb.debian.org/debian $codename main" >"$apt/list"
    local options=(-qq -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$work/sources" && apt-get "${options[@]}" source jansson libzstd pcre2 libmicrohttpd cmocka >/dev/null)
    touch "$work/sources/complete"
}

# build NAME SOURCE OPTION...: configured, built and installed into $prefix.
prefix=$work/$target/prefix
build() {
    local name=$1 source=$2 log=$work/$target/$1.log
    shift 2
    cmake -G Ninja -S "$source" -B "$work/$target/$name" --toolchain "$PWD/cmake/release/zig.cmake" \
        --log-level=WARNING "-DKERF_ZIG=${ZIG// /;}" "-DKERF_ZIG_TARGET=$target" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 \
        "$@" >"$log" 2>&1 &&
        cmake --build "$work/$target/$name" -j "$jobs" >>"$log" 2>&1 &&
        cmake --install "$work/$target/$name" >>"$log" 2>&1 && return
    tail -n 30 "$log" >&2
    return 1
}

# It has no CMakeLists.txt. Only the command has use for it: kerf serve.
build_microhttpd() {
    local log=$work/$target/microhttpd.log
    [ -e "$prefix/lib/libmicrohttpd.a" ] && return
    mkdir -p "$work/$target/microhttpd" && (
        cd "$work/$target/microhttpd"
        tools=$work/$target/zstd/tools
        "$work"/sources/libmicrohttpd-*/configure --host="$target" --prefix="$prefix" \
            --disable-shared --disable-https --disable-doc --disable-examples --disable-curl --disable-tools \
            CC="$ZIG cc -target $target" CFLAGS=-O2 AR="$tools/ar" RANLIB="$tools/ranlib"
        make -j "$jobs" -C src/microhttpd install && make -C src/include install && make install-pkgconfigDATA
    ) >"$log" 2>&1 && return
    tail -n 30 "$log" >&2
    return 1
}

fetch_sources
mkdir -p "$work/$target"
build jansson "$work"/sources/jansson-*/ -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
    -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_BUILD_SHARED_LIBS=OFF
build zstd "$work"/sources/libzstd-*/build/cmake -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF \
    -DZSTD_BUILD_TESTS=OFF -DZSTD_LEGACY_SUPPORT=OFF
build pcre2 "$work"/sources/pcre2-*/ -DPCRE2_BUILD_TESTS=OFF -DPCRE2_BUILD_PCRE2GREP=OFF \
    -DPCRE2_SUPPORT_JIT=ON
case $target in *musl) build_microhttpd ;; esac
# shellcheck disable=SC2206 # words
options=(-DKERF_TESTS=OFF -DKERF_CUDA=OFF -DKERF_OPENMP=OFF ${OPTIONS:-})
if [ -n "$tests" ]; then
    build cmocka "$work"/sources/cmocka-*/ -DWITH_EXAMPLES=OFF -DWITH_STATIC_LIB=ON
    # it makes a shared one as well, and pkg-config names that
    [ ! -e "$prefix/lib/libcmocka-static.a" ] || mv -f "$prefix/lib/libcmocka-static.a" "$prefix/lib/libcmocka.a"
    rm -f "$prefix"/lib/libcmocka.so* "$prefix"/lib/libcmocka.*dylib
    options[0]=-DKERF_TESTS=ON
fi
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
prefix=$work/$target/out
case $target in *musl*) options+=(-DKERF_STATIC=ON) ;; esac
# What a build runs, golden vectors and manual pages, comes from the one that can run here.
machine=$(uname -m)
case $target in "$machine"-linux-*) ;; *)
    host=${KERF_HOST_BUILD:-$work/$machine-linux-musl/kerf}
    [ -e "$host/man/kerf.1" ] && [ -e "$host/golden_vectors.c" ] || bash cmake/release/cross.sh "$machine-linux-musl"
    options+=("-DKERF_HOST_BUILD=$host")
    ;;
esac
rm -rf "$prefix"
build kerf . "${options[@]}"

# A tarball that runs wherever it is unpacked: the command, its pages and completions.
pack() {
    local version name
    version=$(sed -n 's/^#define KERF_VERSION_TEXT "\(.*\)"$/\1/p' codecs/include/kerf/codec.h)
    name=kerf-$version-${target%-musl}
    rm -rf "$work/$target/$name" && mkdir -p "$work/$target/$name/bin" build/release
    cp -r "$prefix/share" "$work/$target/$name/"
    cp "$prefix/bin/kerf" "$work/$target/$name/bin/kerf"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
        -C "$work/$target" -czf "build/release/$name.tar.gz" "$name"
    ls -l "build/release/$name.tar.gz"
}
case $target in *musl) pack ;; esac
[ -z "$tests" ] || ctest --test-dir "$work/$target/kerf" -j "$jobs" --output-on-failure -L 'unit|cli' -LE slow

#!/usr/bin/env bash
# cross.sh - libkerf and the command for another system, with zstd and jansson inside: nothing but the
# system's own C library is asked for. Compiled by zig cc, from Debian's sources of both libraries.
#
#   cross.sh TARGET      x86_64-linux-gnu.2.28, aarch64-linux-gnu.2.28   libraries of wheels
#                        x86_64-linux-musl, aarch64-linux-musl           a static command, and its tarball
#                        aarch64-macos                                   compiled, never run
#
# Leaves build/cross/TARGET/out, and for musl build/release/kerf-VERSION-TARGET.tar.gz. Needs apt-get on
# Debian, dpkg-dev, cmake, and python3 with venv. ZIG="COMMAND" takes another zig than PyPI's ziglang.
set -euo pipefail
target=${1:?usage: cross.sh TARGET}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/build/cross jobs=${JOBS:-$(nproc)}
mkdir -p "$work" && export ZIG_GLOBAL_CACHE_DIR=$work/zig-cache

if [ -z "${ZIG:-}" ]; then
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
    "$work/venv/bin/python" -m ziglang version >/dev/null 2>&1 ||
        "$work/venv/bin/python" -m pip -q install ziglang
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
    (cd "$work/sources" && apt-get "${options[@]}" source jansson libzstd >/dev/null)
    touch "$work/sources/complete"
}

# build NAME SOURCE OPTION...: configured, built and installed beside the others of this target.
prefix=$work/$target/prefix
build() {
    local name=$1 source=$2
    shift 2
    cmake -S "$source" -B "$work/$target/$name" --toolchain "$PWD/cmake/release/zig.cmake" \
        --log-level=WARNING "-DKERF_ZIG=${ZIG// /;}" "-DKERF_ZIG_TARGET=$target" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" >"$work/$target/$name.log"
    cmake --build "$work/$target/$name" -j "$jobs" >>"$work/$target/$name.log"
    cmake --install "$work/$target/$name" >>"$work/$target/$name.log"
}

fetch_sources
mkdir -p "$work/$target"
build jansson "$work"/sources/jansson-*/ -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
    -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_BUILD_SHARED_LIBS=OFF
build zstd "$work"/sources/libzstd-*/build/cmake -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF \
    -DZSTD_BUILD_TESTS=OFF -DZSTD_LEGACY_SUPPORT=OFF
export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
options=(-DKERF_TESTS=OFF -DKERF_CUDA=OFF -DKERF_OPENMP=OFF)
case $target in *musl*) options+=(-DKERF_STATIC=ON) ;; esac
# What a build runs, golden vectors and manual pages, comes from the one that can run here.
host=$(uname -m)-linux-musl
if [ "$target" != "$host" ]; then
    [ -e "$work/$host/prefix/bin/kerf" ] || bash cmake/release/cross.sh "$host"
    options+=("-DKERF_HOST_BUILD=$work/$host/kerf")
fi
build kerf . "${options[@]}"

# A tarball that runs wherever it is unpacked: the command, its pages and completions.
pack() {
    local version name
    version=$(sed -n 's/^#define KERF_VERSION_TEXT "\(.*\)"$/\1/p' codecs/include/kerf/codec.h)
    name=kerf-$version-${target%-musl}
    rm -rf "$work/$target/$name" && mkdir -p "$work/$target/$name" build/release
    cp -r "$prefix/bin" "$prefix/share" "$work/$target/$name/"
    rm -rf "$work/$target/$name"/bin/[!k]* "$work/$target/$name/share/man/man1"/zstd*
    "$work/venv/bin/python" -m ziglang objcopy --strip-all "$prefix/bin/kerf" "$work/$target/$name/bin/kerf"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
        -C "$work/$target" -czf "build/release/$name.tar.gz" "$name"
    ls -l "build/release/$name.tar.gz"
}
case $target in *musl) pack ;; esac

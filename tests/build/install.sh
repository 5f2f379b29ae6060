#!/usr/bin/env bash
# install.sh - installs a finished build into an empty prefix, moves the prefix, and uses it as
# somebody else would: every public header alone, find_package, pkg-config, shared and static.
#
#   install.sh BUILD_FOLDER     CC and CXX choose the compilers
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
consumer=$here/../consumer
cc=${CC:-cc} cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$1" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # nothing may depend on where it was installed
prefix=$work/prefix
export LD_LIBRARY_PATH=$prefix/lib PKG_CONFIG_PATH=$prefix/lib/pkgconfig

for file in bin/kerf lib/libkerf.so lib/libkerf.so.0 lib/libkerf.a include/kerf/formats.def \
    include/kerf/codec.h include/kerf/file.h include/kerf/gemv.h lib/pkgconfig/kerf.pc \
    share/man/man1/kerf.1 share/man/man1/kerf-quantize.1 share/zsh/site-functions/_kerf \
    share/bash-completion/completions/kerf share/fish/vendor_completions.d/kerf.fish; do
    [ -e "$prefix/$file" ] || { echo "not installed: $file" && exit 1; }
done
objdump -p "$prefix/lib/libkerf.so" | grep 'SONAME *libkerf\.so\.0$' >/dev/null # -q would leave before objdump is done
"$prefix/bin/kerf" formats >/dev/null

# Debian's packages have each of these files, once, and ask for none that is not there.
debian=$here/../../cmake/release/debian
mapfile -t patterns < <(cat "$debian"/{libkerf0,libkerf-dev,kerf}.install "$debian/not-installed")
mapfile -t files < <(cd "$prefix" && find . ! -type d |
    sed 's|^\./|usr/|; s|^usr/lib/|usr/lib/any/|; s|/site-functions/|/vendor-completions/|')
wanted=" "
for file in "${files[@]}"; do
    [ "$file" != usr/bin/kerf-mpi ] || continue # in none: it is made for the MPI of a machine
    owners=0
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        if [[ $file == $pattern || $file == $pattern/* ]]; then
            owners=$((owners + 1)) wanted+="$pattern "
        fi
    done
    [ $owners -eq 1 ] || { echo "$file is in $owners of Debian's packages" && exit 1; }
done
for pattern in "${patterns[@]}"; do
    [[ $wanted == *" $pattern "* ]] || { echo "Debian's packages ask for $pattern, which is not installed" && exit 1; }
done
echo "${#files[@]} files, each in one of Debian's packages"

warn=(-Wall -Wextra -Wconversion -Wshadow -Wundef -pedantic -Werror -fsyntax-only
    -I "$prefix/include")
headers=0
for header in "$prefix"/include/kerf/*.h; do
    line="#include <kerf/${header##*/}>"
    echo "$line" | "$cc" -std=c11 "${warn[@]}" -Wstrict-prototypes -x c -
    echo "$line" | "$cxx" -std=c++17 "${warn[@]}" -x c++ -
    headers=$((headers + 1))
done
echo "$headers public headers compile alone as C11 and C++17"

cmake -S "$consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" --log-level=WARNING >/dev/null
cmake --build "$work/build" >/dev/null
for program in cxx_kerf cxx_kerf_static; do
    echo "find_package, $program: $("$work/build/$program")"
done

# The consumer cancels, quantizes, verifies, scores and advises: what it says and leaves is checked.
model=$here/../data/tiny-llama
[ "$(wc -l <"$consumer/consumer.c")" -lt 120 ] || { echo "consumer.c is no short program" && exit 1; }
consume() { # NAME PROGRAM
    local out=$work/out-${2##*/}
    "$2" "$model" "$out" "$out.html" >"$out.txt" || { echo "$1 failed" && exit 1; }
    for line in "comparing what was written" "28 tensors quantized" "verify: passed" \
        "28 tensors in mxfp6-e2m3" "advice: "; do
        grep -qF "$line" "$out.txt" || { echo "$1 did not say: $line" && cat "$out.txt" && exit 1; }
    done
    "$prefix/bin/kerf" verify "$model" "$out" >/dev/null
    grep -q '</html>' "$out.html"
    echo "$1: quantized, verified, scored, advised"
}
for program in c_kerf c_kerf_static; do consume "find_package, $program" "$work/build/$program"; done

read -ra flags <<<"$(pkg-config --cflags --libs kerf)"
"$cc" -std=c11 "$consumer/consumer.c" -o "$work/shared" "${flags[@]}"
consume "pkg-config, shared" "$work/shared"

# The examples of cli/abi.md, and what each of them says.
example() { # NAME WORDS ARGUMENT...
    "$cc" -std=c11 -Wall -Wextra -pedantic -Werror "$consumer/examples/example_$1.c" -o "$work/$1" "${flags[@]}"
    "$work/$1" "${@:3}" >"$work/said" || { echo "$1.c failed" && exit 1; }
    grep -qF -- "$2" "$work/said" || { echo "$1.c did not say: $2" && cat "$work/said" && exit 1; }
    [ "$(wc -l <"$consumer/examples/example_$1.c")" -le 45 ] || { echo "$1.c is no short example" && exit 1; }
}
example matrix "0.2718 became 0.2500"
example product "y[33] = 33.000"
example folder "28 tensors, t2 7.560e-03" "$model" "$work/folder-out"
example advice '"schema": "kerf.recipe/1"' "$model" 5

# A part of another project, which may have pages of its own; and folders that are given as absolute paths:
# kerf.pc names them as they are.
mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C)
add_custom_target(man)
add_subdirectory($(cd "$here/../.." && pwd) kerf)
add_executable(parent $(cd "$consumer" && pwd)/examples/example_matrix.c)
target_link_libraries(parent kerf::kerf)
END
cmake -S "$work/parent" -B "$work/absolute" -DCMAKE_C_COMPILER="$cc" -DKERF_CUDA=OFF -DKERF_MPI=OFF \
    -DCMAKE_INSTALL_PREFIX=/opt/kerf -DCMAKE_INSTALL_LIBDIR=/opt/libraries -DCMAKE_INSTALL_INCLUDEDIR=/opt/headers \
    --log-level=WARNING >"$work/said" 2>&1 || { echo "no part of another project" && cat "$work/said" && exit 1; }
for folder in prefix:/opt/kerf libdir:/opt/libraries includedir:/opt/headers; do
    said=$(PKG_CONFIG_PATH=$work/absolute/kerf pkg-config --variable="${folder%%:*}" kerf)
    [ "$said" = "${folder#*:}" ] || { echo "kerf.pc has ${folder%%:*} $said, not ${folder#*:}" && exit 1; }
done

rm "$prefix"/lib/libkerf.so*
read -ra flags <<<"$(pkg-config --static --cflags --libs kerf)"
"$cc" -std=c11 "$consumer/consumer.c" -o "$work/static" "${flags[@]}"
consume "pkg-config, static" "$work/static"
"$work/build/cxx_kerf_static" >/dev/null

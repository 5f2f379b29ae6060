#!/usr/bin/env bash
# debian.sh - Debian packages of this tree in build/release: libkerf0, libkerf-dev, kerf, python3-kerf.
#
#   debian.sh [--cuda [--architectures LIST]] [--built FOLDER] [--chroot FOLDER]
#
#   --cuda           kerf-cuda alone, beside those that are there: the library with kernels for GPUs, which
#                    takes the place of libkerf0. Needs nvcc, and for each architecture half an hour of a core
#   --architectures LIST   for these alone, as CMake writes them: "90a-real;120a-real". Default: all of a release
#   --built FOLDER   takes what stands in this build folder, configured as rules has it, instead of compiling
#   --chroot FOLDER  afterwards installs all that are there in this clean system (made by debootstrap when it
#                    is not there), uses them, removes them, and looks for what they left. Needs root
#
# What is missing is installed through apt, or the line that would do so is printed. Ends with 1 when
# lintian finds an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. cmake/packages.sh
profiles=() chroot=
while [ $# -gt 0 ]; do
    case $1 in
    --cuda) profiles=(-Ppkg.kerf.cuda) && CUDACXX=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc) && export CUDACXX ;;
    --architectures) export KERF_ARCHITECTURES=${2:?--architectures needs a list} && shift ;;
    --built) KERF_BUILT=$(realpath "${2:?--built needs a folder}") && export KERF_BUILT && shift ;;
    --chroot) chroot=${2:?--chroot needs a folder} && shift ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
need_packages "${build_packages[@]}" "dh=debhelper" "dh_python3=dh-python" "dpkg-buildpackage=dpkg-dev" \
    "lintian=lintian" "deb:python3-cffi=python3-cffi" "fakeroot=fakeroot" || exit 1

out=$PWD/build/release
version=$(sed -n 's/^#define KERF_VERSION_TEXT "\(.*\)"$/\1/p' codecs/include/kerf/codec.h)
source=$out/debian/kerf-$version
rm -rf "$out/debian" && mkdir -p "$source"
git ls-files -z --cached --others --exclude-standard | tar --null -cf - -T - | tar -xf - -C "$source"
cp -r cmake/release/debian "$source/debian"
cat >"$source/debian/changelog" <<END
kerf ($version) unstable; urgency=medium

  * See /usr/share/doc/kerf/changelog.gz of this version.

 -- kerf maintainers <maintainers@kerf.invalid>  $(git log -1 --format=%cD)
END

# Paths of the system's own tools: another python3 in front would not have Debian's packages.
(cd "$source" && PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage -b -us -uc -d "${profiles[@]}" -j"$(nproc)")
lintian --allow-root --fail-on error "$out/debian"/*.changes
[ ${#profiles[@]} -gt 0 ] || rm -f "$out"/*.deb
mv "$out"/debian/*.deb "$out/debian"/*.changes "$out/debian"/*.buildinfo "$out/"
ls -l "$out"/*.deb
[ -n "$chroot" ] || exit 0

# --- in a clean system ---------------------------------------------------------------------------
here() { chroot "$chroot" /usr/bin/env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
[ -e "$chroot/etc/debian_version" ] || debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$chroot"
listing() { (cd "$chroot" && find usr etc opt -xdev | LC_ALL=C sort); }
here apt-get -qq update
here apt-get -qq install -y --no-install-recommends gcc libc6-dev pkg-config python3-numpy python3-cffi-backend \
    libjansson-dev libzstd-dev libpcre2-dev libmicrohttpd12 libgomp1 >/dev/null
listing >"$out/before.txt"
mkdir -p "$chroot/tmp/kerf" && cp "$out"/{libkerf0,libkerf-dev,kerf,python3-kerf}_*.deb "$chroot/tmp/kerf/"
cp -r tests/data/tiny-llama tests/consumer/examples "$chroot/tmp/kerf/"
here sh -ec 'apt-get -qq install -y --no-install-recommends /tmp/kerf/*.deb >/dev/null
    cd /tmp/kerf
    ldd /usr/bin/kerf | grep libkerf.so.0
    kerf selftest | tail -n 1
    kerf quantize tiny-llama -f nvfp4:4/6 -o q && kerf verify tiny-llama q | tail -n 1
    cc -std=c11 examples/example_matrix.c $(pkg-config --cflags --libs kerf) -o matrix && ./matrix
    cc -std=c11 examples/example_matrix.c $(pkg-config --static --cflags kerf) -l:libkerf.a -lzstd -ljansson -lpcre2-8 -lgomp -lm -o m2 && ./m2
    python3 -c "import kerf; print(kerf.__version__, kerf.verify(\"tiny-llama\", \"q\").passed)"
    test -s /usr/share/man/man1/kerf-quantize.1.gz || test ! -e /usr/share/man/man1 # minbase may leave pages out
    kerf serve --help | head -n 1'
if [ -n "$(find "$out" -maxdepth 1 -name 'kerf-cuda_*.deb')" ]; then # nothing that stands on libkerf0 notices
    cp "$out"/kerf-cuda_*.deb "$chroot/tmp/kerf/"
    here sh -ec 'apt-get -qq install -y --no-install-recommends /tmp/kerf/kerf-cuda_*.deb >/dev/null
        cd /tmp/kerf
        if dpkg-query -W -f "\${db:Status-Status}" libkerf0 2>/dev/null | grep -qx installed; then exit 1; fi
        dpkg -S "$(readlink -f "$(ldd /usr/bin/kerf | sed -n "s/.*libkerf.so.0 => \([^ ]*\).*/\1/p")")"
        kerf selftest | tail -n 1
        kerf verify tiny-llama q | tail -n 1
        python3 -c "import kerf; print(kerf.verify(\"tiny-llama\", \"q\").passed, \"with kerf-cuda\")"'
fi
here sh -ec 'apt-get -qq purge -y libkerf0 kerf-cuda libkerf-dev kerf python3-kerf >/dev/null 2>&1 ||
    apt-get -qq purge -y libkerf0 libkerf-dev kerf python3-kerf >/dev/null'
rm -rf "$chroot/tmp/kerf"
listing >"$out/after.txt"
# python3 compiles modules where it stands; what is in the folder of its own cache is not the packages'
diff <(grep -v __pycache__ "$out/before.txt") <(grep -v __pycache__ "$out/after.txt") && echo "removed: nothing is left"

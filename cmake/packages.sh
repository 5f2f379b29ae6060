# shellcheck shell=bash
# packages.sh - sourced by scripts that must work on a bare machine: finds what is missing and
# installs it through apt, or says which line would.
#
# need_packages PROBE=PACKAGE...
#   PROBE is a command, `pc:MODULE` for pkg-config, the absolute path of a file, or `deb:PACKAGE`.
#   Packages whose probe succeeds are not touched, so tools that were installed by other means are
#   used as they are.

probe() {
    case $1 in
    pc:*) command -v pkg-config >/dev/null && pkg-config --exists "${1#pc:}" ;;
    deb:*) dpkg-query -W -f '${db:Status-Status}' "${1#deb:}" 2>/dev/null | grep -qx installed ;;
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

need_packages() {
    local missing=() entry sudo=()
    for entry in "$@"; do
        probe "${entry%%=*}" || missing+=("${entry#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0

    local install=(apt-get install -y --no-install-recommends "${missing[@]}")
    if ! command -v apt-get >/dev/null; then
        echo "missing here: ${missing[*]} (these are Debian's names; no apt-get on this machine)" >&2
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; then
            echo "missing here: ${missing[*]}. As root, run this line, then start again:" >&2
            echo "apt-get update && ${install[*]}" >&2
            return 1
        fi
        sudo=(sudo -n)
    fi
    echo "\$ apt-get update && ${install[*]}"
    "${sudo[@]}" apt-get update -qq &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" -qq >/dev/null
}

# What a build needs, whatever it is for.
# shellcheck disable=SC2034 # for those who source this
build_packages=("gcc=gcc" "/usr/include/stdio.h=libc6-dev" "make=make" "cmake=cmake"
    "pkg-config=pkg-config" "pc:libzstd=libzstd-dev" "pc:jansson=libjansson-dev" "pc:libpcre2-8=libpcre2-dev"
    "pc:libmicrohttpd=libmicrohttpd-dev")

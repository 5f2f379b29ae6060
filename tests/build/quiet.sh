#!/usr/bin/env bash
# quiet.sh - the library speaks only through its results: below cli/ no line prints to standard output
# or error, ends the program, reads the environment or knows the options of a command. Reads the
# sources, without comments and strings; symbols.sh asks the built library the same.
#
#   quiet.sh [ROOT]    exit 0: the rule holds; 1: the offending lines are on stdout
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

mapfile -t sources < <(find codecs kernels advisor -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
    LC_ALL=C sort)
[ ${#sources[@]} -gt 0 ] || { echo "no sources under $PWD" >&2 && exit 2; }

awk '
BEGIN {
    why["printf"] = why["vprintf"] = why["puts"] = why["putchar"] = why["perror"] = "prints"
    why["stdout"] = why["stderr"] = "prints"
    why["stdin"] = "reads standard input"
    why["exit"] = why["_exit"] = why["quick_exit"] = why["abort"] = why["assert"] = "ends the program"
    why["raise"] = why["kill"] = "ends the program"
    why["getenv"] = why["secure_getenv"] = why["setenv"] = why["putenv"] = why["environ"] = \
        "uses the environment"
}
FNR == 1 { comment = 0 }
{
    rest = $0; code = ""
    while (rest != "") { # leaves what is neither comment nor string
        if (comment) {
            i = index(rest, "*/")
            if (!i) break
            rest = substr(rest, i + 2); comment = 0
        } else if (match(rest, /"([^"\\]|\\.)*"|\/\*|\/\/|\047([^\047\\]|\\.)+\047/)) {
            token = substr(rest, RSTART, RLENGTH)
            code = code substr(rest, 1, RSTART - 1) " "
            rest = substr(rest, RSTART + RLENGTH)
            if (token == "//") break
            if (token == "/*") comment = 1
        } else { code = code rest; rest = "" }
    }
    while (match(code, /[A-Za-z_][A-Za-z_0-9]*/)) {
        word = substr(code, RSTART, RLENGTH)
        if (RSTART < 2 || substr(code, RSTART - 1, 1) !~ /[.>]/) { # a member may be called so
            if (before == "format") word = "" # an attribute: format(printf, 2, 3)
            if (word in why) { print FILENAME ":" FNR ": " word " " why[word]; failed = 1 }
            else if (word ~ /^args_/) {
                print FILENAME ":" FNR ": " word ": options of the command"; failed = 1
            }
        }
        before = word
        code = substr(code, RSTART + RLENGTH)
    }
}
END { exit failed }
' "${sources[@]}"

#!/usr/bin/env bash
# layers.sh - who may include whom. Reads every #include line of the product and fails when one
# points upward, when headers go in circles, when a library shows up outside its home, or when
# two files carry the same name.
#
#   layers.sh [ROOT]    exit 0: the rule holds; 1: the offending lines are on stdout
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

product=(codecs)
for folder in kernels advisor cli; do [ ! -d $folder ] || product+=("$folder"); done
mapfile -t sources < <(find "${product[@]}" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \
    -o -name '*.def' | LC_ALL=C sort)
[ ${#sources[@]} -gt 0 ] || { echo "no sources under $PWD" >&2 && exit 2; }

awk '
BEGIN {
    # Layer of a file: the first pattern that fits its path.
    n = 0
    place("codecs/include/kerf/formats.def", "table")
    place("codecs/include/kerf/codec.h", "codec.h")
    place("codecs/include/kerf/cuda.h", "cuda.h")
    place("codecs/include/kerf/", "file.h")
    place("kernels/include/kerf/", "gemv.h")
    place("advisor/include/kerf/", "advisor.h")
    place("codecs/base/", "base");   place("codecs/scalar/", "scalar")
    place("codecs/block/", "block"); place("codecs/cpu/", "cpu")
    place("codecs/cuda/", "cuda");   place("codecs/file/", "file")
    place("codecs/", "format")
    place("kernels/", "kernels");    place("advisor/", "advisor"); place("cli/", "cli")

    # What each layer may include besides itself. The table names the block headers for the one
    # who asks for them (KERF_BLOCK_HEADERS): block/all.h.
    may["table"]     = "block"
    may["codec.h"]   = "table"
    may["file.h"]    = "codec.h"
    may["cuda.h"]    = "codec.h"
    may["gemv.h"]    = "codec.h cuda.h"
    may["advisor.h"] = "codec.h file.h gemv.h"
    may["base"]      = "codec.h"
    may["scalar"]    = "codec.h"
    may["block"]     = "codec.h table scalar"
    may["format"]    = "codec.h table base scalar block"
    may["file"]      = "codec.h table base file.h"
    may["cpu"]       = "codec.h table base format scalar block"
    may["cuda"]      = may["cpu"] " cuda.h"
    may["kernels"]   = may["cpu"] " cpu cuda gemv.h"
    may["advisor"]   = may["kernels"] " kernels file.h advisor.h"
    may["cli"]       = "codec.h table file.h cuda.h gemv.h advisor.h"

    # System headers: the freestanding ones for anybody; the rest of libc above the block layer;
    # libm never where bytes are made; each library in its home.
    free = "^(stdint|stddef|string)\\.h$"
    libm = "^(math|tgmath|fenv)\\.h$"
    home["omp.h"] = "^codecs/base/threads\\.c$"
    home["jansson.h"] = home["zstd.h"] = "^(codecs/file|advisor|cli)/"
    home["immintrin.h"] = home["cpuid.h"] = home["arm_neon.h"] = "^(codecs|kernels)/cpu/"
    home["sys/auxv.h"] = home["immintrin.h"]
    home["cuda_runtime.h"] = home["cublasLt.h"] = "^(codecs|kernels)/cuda/"
    home["cuda_runtime_api.h"] = home["cuda_bf16.h"] = home["cuda_runtime.h"]
    home["cuda_fp16.h"] = home["cuda_fp8.h"] = home["cuda_runtime.h"]
}

function place(prefix, layer) { order[++n] = prefix; name[n] = layer }
function layer_of(path,   i) {
    for (i = 1; i <= n; i++) if (index(path, order[i]) == 1) return name[i]
    return ""
}
function bad(text) { print FILENAME ":" FNR ": " text; failed = 1 }

# Internal headers are named from codecs/ (or kernels/, advisor/) on, public ones as <kerf/...>,
# neighbours by their bare name.
function resolve(text,   folder, i) {
    folder = FILENAME
    sub(/[^\/]*$/, "", folder)
    split(folder text SUBSEP "codecs/" text SUBSEP "kernels/" text SUBSEP "advisor/" text SUBSEP \
          "codecs/include/" text SUBSEP "kernels/include/" text SUBSEP "advisor/include/" text, \
          candidate, SUBSEP)
    for (i = 1; i <= 7; i++) if (candidate[i] in exists) return candidate[i]
    return ""
}

function check_own(text, quoted,   path, from, to) {
    path = resolve(text)
    if (path == "") { bad("no such header in the tree: " text); return }
    from = layer_of(FILENAME); to = layer_of(path)
    if (quoted && path ~ /\/include\/kerf\// && FILENAME !~ /\/include\/kerf\//)
        bad("public headers are included as <kerf/...>: " text)
    if (from != to && index(" " may[from] " ", " " to " ") == 0)
        bad(from " may not include " to ": " text)
    if (path ~ /\.h$/ && FILENAME ~ /\.h$/) edges[FILENAME] = edges[FILENAME] " " path
}

function check_system(text,   from) {
    from = layer_of(FILENAME)
    if (text in home) {
        if (FILENAME !~ home[text]) bad("<" text "> belongs into " home[text])
    } else if (text ~ libm) {
        if (FILENAME ~ /^codecs\//) bad("no libm where bytes are made: <" text ">")
    } else if (text !~ free && (from ~ /^(scalar|block)$/ || FILENAME ~ /include\/kerf\//))
        bad(from " may not include <" text ">")
}

FNR == 1 { exists[FILENAME] = 1 }
# First round: learn which files exist.
round == 1 { nextfile }

/^[ \t]*#[ \t]*define[ \t]+KERF_BLOCK_HEADERS/ && FILENAME != "codecs/block/all.h" {
    bad("block headers come through block/all.h")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    quoted = $0 ~ /include[ \t]*"/
    text = $0
    sub(/^[^<"]*[<"]/, "", text)
    sub(/[>"].*$/, "", text)
    if (quoted || text ~ /^kerf\//) check_own(text, quoted)
    else check_system(text)
    next
}
/^[ \t]*#[ \t]*include/ { bad("an include that no reader can follow") }

# Depth first over header -> header; a header met again on the way down closes a circle.
function visit(path,   list, i, count) {
    if (state[path] == 2) return
    if (state[path] == 1) {
        print path ": includes itself through other headers"
        failed = 1
        return
    }
    state[path] = 1
    count = split(edges[path], list, " ")
    for (i = 1; i <= count; i++) visit(list[i])
    state[path] = 2
}
END {
    for (path in edges) visit(path)
    exit failed
}
' round=1 "${sources[@]}" round=2 "${sources[@]}" || failed=1

# One name, one file: a name in a message or a stack trace must be enough.
same=$(find . \( -path ./build -o -path './.*' \) -prune -o -type f \( -name '*.[ch]' \
    -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.cpp' \) -print | awk -F/ '
    $NF in seen { print seen[$NF] " and " $0 ": the same file name" }
    { seen[$NF] = $0 }')
[ -z "$same" ] || { echo "$same" && failed=1; }

exit "${failed:-0}"

#!/usr/bin/env bash
# layers.sh - which room may include which. Reads every #include line of the product and fails
# when one points upward, when headers, files or rooms go in circles, when a library is used outside
# its place, or when two files carry the same name.
#
#   layers.sh [ROOT]    exit 0: the rules hold; 1: the offending lines are on stdout
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

mapfile -t sources < <(find codecs kernels advisor cli -name '*.[ch]' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.def' | LC_ALL=C sort)
[ ${#sources[@]} -gt 0 ] || { echo "no sources under $PWD" >&2 && exit 2; }

awk '
BEGIN {
    for (i = 1; i < ARGC; i++) exists[ARGV[i]] = 1

    # The room of a file: the first pattern that its path begins with. Public headers (<kerf/...>)
    # are the doors of rooms: "<file>" is the door of the rooms of files.
    n = 0
    place("codecs/include/kerf/formats.def", "table")
    place("codecs/include/kerf/codec.h",     "<codec>"); place("codecs/include/kerf/job.h",  "<codec>")
    place("codecs/include/kerf/words.h",     "<codec>"); place("codecs/include/kerf/loss.h", "<codec>")
    place("codecs/include/kerf/encode_matrix.h", "<codec>")
    place("codecs/include/kerf/feedback.h", "<codec>")
    place("codecs/include/kerf/cuda.h",      "<cuda>")
    place("codecs/include/kerf/roles.h",     "<file>");  place("codecs/include/kerf/checksums.h", "<file>")
    place("codecs/include/kerf/parts.h",     "<file>")
    place("codecs/include/kerf/file.h",      "<file>");  place("codecs/include/kerf/layouts.h", "<layout>")
    place("codecs/include/kerf/selftest.h",  "<selftest>")
    place("codecs/include/kerf/",            "<model>")
    place("kernels/include/kerf/forward.h",  "<forward>")
    place("kernels/include/kerf/",           "<kernels>")
    place("advisor/include/kerf/kerf.h",     "<all>")
    place("advisor/include/kerf/",           "<advisor>")

    place("codecs/base/", "base");           place("codecs/scalar/", "scalar")
    place("codecs/block/", "block");         place("codecs/format/", "format")
    place("codecs/cpu/", "cpu");             place("codecs/cuda/", "cuda")
    place("codecs/file/disk/", "disk");      place("codecs/file/json/", "json")
    place("codecs/file/table/", "tables")
    place("codecs/file/safetensors/", "safetensors"); place("codecs/file/gguf/", "gguf")
    place("codecs/file/read/", "read");      place("codecs/file/write/", "write")
    place("codecs/roles/", "roles");         place("codecs/layout/", "layout");       place("codecs/stream/", "stream")
    place("codecs/model/inspect/", "inspect"); place("codecs/model/", "model")
    place("codecs/selftest/", "selftest")
    place("kernels/cpu/", "kernels/cpu");    place("kernels/cuda/", "kernels/cuda")
    place("kernels/plan/", "kernels/plan");  place("kernels/time/", "kernels/time")
    place("kernels/forward/", "kernels/forward")
    place("advisor/machine/", "machine");    place("advisor/monitor/", "monitor")
    place("advisor/model/", "operators")
    place("advisor/score/", "score");        place("advisor/advice/", "advice")
    place("advisor/report/", "report");      place("advisor/calibrate/", "calibrate")
    place("advisor/tokens/", "tokens")
    place("cli/verbs/", "verbs");            place("cli/serve/serve.h", "cli")
    place("cli/serve/", "serve");            place("cli/mpi/", "mpi")
    place("cli/", "cli")

    # What a room stands on: it may include these and whatever these stand on.
    on["<codec>"] = "table"
    on["<cuda>"] = on["<file>"] = on["<selftest>"] = on["<kernels>"] = "<codec>"
    on["<kernels>"] = "<codec> <cuda>"
    on["<layout>"] = "<file>"
    on["<model>"] = "<layout> <cuda>"
    on["<forward>"] = "<model> <kernels>"
    on["<advisor>"] = "<forward>"
    on["<all>"] = "<advisor> <selftest>"

    on["scalar"] = on["base"] = "<codec>"
    on["block"] = "scalar"
    on["format"] = "base block"
    on["cpu"] = "format"
    on["cuda"] = "format <cuda>"

    on["disk"] = "base <file>"
    on["json"] = "disk"
    on["tables"] = "json"
    on["safetensors"] = on["gguf"] = "tables"
    on["read"] = "safetensors gguf"
    on["write"] = "read"
    on["roles"] = "json <file>"
    on["layout"] = "write roles <layout>"
    on["stream"] = "layout <cuda>"
    on["model"] = "stream <model>"
    on["inspect"] = "model"
    on["selftest"] = "json <selftest> <cuda>"

    on["kernels/cpu"] = "cpu <kernels>"
    on["kernels/plan"] = "kernels/cpu"
    on["kernels/cuda"] = "kernels/plan cuda"
    on["kernels/time"] = "base <kernels>"
    on["kernels/forward"] = "gguf kernels/plan <forward>"

    for (room in on) reach(room, on[room])

    # The advisor and the command use doors, and of the rooms behind them these alone.
    doors = "<codec> <cuda> <file> <layout> <model> <selftest> <kernels> <forward> <advisor> table"
    inside = doors " base json stream kernels/plan"
    use("machine", inside);              use("operators", inside)
    use("monitor", inside)
    use("score", inside);                use("advice", inside " machine operators score")
    use("report", inside " advice");     use("calibrate", inside)
    use("tokens", doors " base disk json gguf")
    use("cli", doors);                   use("verbs", doors " cli")
    use("serve", doors " cli");          use("mpi", doors " cli")
    use("table", "block") # it names the headers of families for block/all.h

    # System headers: the freestanding ones for anybody; the rest of libc not in scalar and block;
    # libm never where bytes are made; each library in its place.
    free = "^(stdint|stddef|string)\\.h$"
    libm = "^(math|tgmath|fenv)\\.h$"
    bytes = "^(base|scalar|block|format|cpu|cuda|stream)$"
    home["microhttpd.h"] = "^cli/serve/"
    home["mpi.h"] = "^cli/mpi/"
    home["omp.h"] = "^codecs/base/threads\\.c$"
    home["jansson.h"] = home["zstd.h"] = "^(codecs/(file|roles|layout|model|selftest)|kernels/forward|advisor|cli)/"
    home["pcre2.h"] = "^advisor/tokens/"
    home["immintrin.h"] = home["cpuid.h"] = home["arm_neon.h"] = "^(codecs|kernels)/cpu/"
    home["sys/auxv.h"] = home["immintrin.h"]
    home["cuda_runtime.h"] = home["cublasLt.h"] = "^(codecs/cuda|kernels/(cuda|time))/"
    home["cuda_runtime_api.h"] = home["cuda_bf16.h"] = home["cuda_runtime.h"]
    home["cuda_fp16.h"] = home["cuda_fp8.h"] = home["cuda_runtime.h"]
}

function place(prefix, room) { order[++n] = prefix; name[n] = room }
function room_of(path,   i) {
    for (i = 1; i <= n; i++) if (index(path, order[i]) == 1) return name[i]
    return "no room"
}
function use(room, list,   part, i) {
    for (i = split(list, part, " "); i > 0; i--) may[room, part[i]] = 1
}
function reach(room, list,   part, i) {
    for (i = split(list, part, " "); i > 0; i--) {
        may[room, part[i]] = 1
        if (part[i] in on) reach(room, on[part[i]])
    }
}
function bad(text) { print FILENAME ":" FNR ": " text; failed = 1 }

# Internal headers are named from codecs/ (or kernels/, advisor/, cli/) on, public ones as
# <kerf/...>, neighbours by their bare name.
function resolve(text,   folder, i, count) {
    folder = FILENAME
    sub(/[^\/]*$/, "", folder)
    count = split(folder text SUBSEP "codecs/" text SUBSEP "kernels/" text SUBSEP "advisor/" text \
                  SUBSEP "cli/" text SUBSEP "codecs/include/" text SUBSEP "kernels/include/" text \
                  SUBSEP "advisor/include/" text, candidate, SUBSEP)
    for (i = 1; i <= count; i++) if (candidate[i] in exists) return candidate[i]
    return ""
}

# A unit is what one name stands for: turns.c and turns.h. A public header is a unit of its own,
# for its functions are defined in many files.
function unit_of(path) {
    if (path !~ /\/include\/kerf\//) sub(/\.[a-z]+$/, "", path)
    return path
}
function folder_of(path) {
    if (path !~ /\/include\/kerf\//) sub(/\/[^\/]*$/, "", path)
    return path
}
function connect(graph, from, to) {
    if (from == to || (graph, from, to) in known) return
    known[graph, from, to] = 1
    edges[graph, from] = edges[graph, from] SUBSEP to
    if (!((graph, from) in begun)) { begun[graph, from] = 1; starts[++begins] = graph SUBSEP from }
}

function check_own(text, quoted,   path, from, to) {
    path = resolve(text)
    if (path == "") { bad("no such header in the tree: " text); return }
    from = room_of(FILENAME); to = room_of(path)
    if (quoted && path ~ /\/include\/kerf\// && FILENAME !~ /\/include\/kerf\//)
        bad("public headers are included as <kerf/...>: " text)
    if (from != to && !((from, to) in may)) bad(from " may not include " to ": " text)
    if (from == "table") return # read by block/all.h alone, which is of the room that it names
    if (path ~ /\.c?u?h$/ && FILENAME ~ /\.c?u?h$/ ) connect("header", FILENAME, path)
    connect("file", unit_of(FILENAME), unit_of(path))
    connect("room", folder_of(FILENAME), folder_of(path))
}

function check_system(text,   from) {
    from = room_of(FILENAME)
    if (text in home) {
        if (FILENAME !~ home[text]) bad("<" text "> belongs into " home[text])
    } else if (text ~ libm) {
        if (from ~ bytes) bad("no libm where bytes are made: <" text ">")
    } else if (text !~ free && (from ~ /^(scalar|block)$/ || FILENAME ~ /include\/kerf\//))
        bad(from " may not include <" text ">")
}

FNR == 1 && room_of(FILENAME) == "no room" { bad("in no room that layers.sh knows") }

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

# Depth first; what is met again on the way down closes a circle, which is printed in full.
function visit(graph, node, depth,   list, i, count, circle) {
    if (state[graph, node] == 2) return
    way[depth] = node
    if (state[graph, node] == 1) {
        circle = node
        for (i = depth - 1; way[i] != node; i--) circle = way[i] " -> " circle
        print graph "s in a circle: " node " -> " circle
        failed = 1
        return
    }
    state[graph, node] = 1
    count = split(edges[graph, node], list, SUBSEP)
    for (i = 2; i <= count; i++) { way[depth] = node; visit(graph, list[i], depth + 1) }
    state[graph, node] = 2
}
END {
    for (b = 1; b <= begins; b++) { split(starts[b], start, SUBSEP); visit(start[1], start[2], 1) }
    exit failed
}
' "${sources[@]}" || failed=1

# One name, one file: a name in a message or a stack trace must be enough.
same=$(find . \( -path ./build -o -path './.*' \) -prune -o -type f \( -name '*.[ch]' \
    -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.cpp' \) -print | awk -F/ '
    $NF in seen { print seen[$NF] " and " $0 ": the same file name" }
    { seen[$NF] = $0 }')
[ -z "$same" ] || { echo "$same" && failed=1; }

exit "${failed:-0}"

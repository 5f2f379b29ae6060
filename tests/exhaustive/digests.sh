#!/usr/bin/env bash
# digests.sh - holds the digests of `kerf selftest` against codecs/selftest/digests.h: none may differ and none
# may be missing.
#
#   bash tests/exhaustive/digests.sh KERF            check
#   bash tests/exhaustive/digests.sh KERF --write    record those of this build instead
set -euo pipefail
exec </dev/null
kerf=${1:?usage: digests.sh KERF [--write]}
header=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/codecs/selftest/digests.h

status=0
report=$("$kerf" selftest) || status=$?
[ $status -le 1 ] || exit $status # 1: a codec failed, maybe only for its digest

if [ "${2:-}" = --write ]; then
    rows=$(awk '$1 ~ /:/ && length($2) == 16 { printf "    {\"%s\", 0x%s},\n", $1, $2 }' <<<"$report")
    [ -n "$rows" ] || { echo "no digests in the output of $kerf selftest" >&2 && exit 1; }
    {
        sed '/^static const recorded_digest/q' "$header"
        printf '%s\n' "$rows"
        sed -n '/^};/,$p' "$header"
    } >"$header.new"
    mv "$header.new" "$header"
    echo "recorded $(wc -l <<<"$rows") digests; build again"
    exit 0
fi
if grep -E 'no digest recorded|recorded digest is' <<<"$report"; then
    echo "codecs/selftest/digests.h does not know these codecs or their bytes; if they are meant:" \
        "bash tests/exhaustive/digests.sh KERF --write"
    exit 1
fi
grep '^passed: ' <<<"$report" || status=1
exit $status

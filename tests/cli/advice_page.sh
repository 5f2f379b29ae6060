#!/usr/bin/env bash
# advice_page.sh - every command of advisor/from_question.md prints what stands there, but for seconds. The
# command in Python runs where READER is a Python that has transformers and compressed-tensors.
#   KERF=.. TOOLS=.. DATA=.. READER=python3 bash tests/cli/advice_page.sh --update   writes the page
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/advisor/from_question.md
cd "$tmp" || exit 1
cp -r "$DATA/tiny-llama" model
cp "$DATA/configs/llama-3.1-8b.json" config.json
cp "$DATA/configs/llama-3.1-70b.json" config-70b.json
mkdir bin && ln -s "$(realpath "$KERF")" bin/kerf
[ -z "${READER:-}" ] || ln -s "$READER" bin/python3

# What differs from run to run: how long it took.
same() { sed -E 's/[0-9.]+ s(,|;|$)/T s\1/g; s/[0-9.]+ [kMG]?B\/s/R/g; s/ +$//'; }

# The page with the output of its commands in place of what stands there.
while IFS= read -r line; do
    [ "${skip:-0}" = 0 ] || [ "$line" = '```' ] && printf '%s\n' "$line"
    [ "$line" = '```' ] && skip=0
    [[ $line = '$ '* ]] || continue
    skip=1
    if [[ $line = *python3* && -z ${READER:-} ]]; then # as it stands
        sed -n "\|^$(sed 's/[][\.*^$|]/\\&/g' <<<"$line")\$|,/^\`\`\`\$/p" "$page" | sed '1d;$d'
    else
        COLUMNS=80 PATH=$tmp/bin:$PATH bash -c "${line#??}" 2>&1 | grep -v '%|' # a bar of another's
    fi
done <"$page" >made
[ "${1:-}" != --update ] || cp made "$page"
diff <(same <"$page") <(same <made) >differs || sed 's/^/# /' differs
check "the page is what the commands print" test ! -s differs
check "and none failed" bash -c '! grep -q "^kerf: " made'
finish

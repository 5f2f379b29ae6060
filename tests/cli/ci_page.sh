#!/usr/bin/env bash
# ci_page.sh - the workflows of cli/ci.md do what the page says: their steps are run as they stand there, on
# the small model, with a recipe and limits in the repository; a model that lost more fails the last one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
page=$(realpath "$DATA/../../cli/ci.md")

# commands N: a line for each command of kerf in the page's Nth block of YAML.
commands() {
    awk -v wanted="$1" '
        /^```/ { inside = /^```yaml/; block += inside; next }
        !inside || block != wanted { next }
        folded && /^          [^ ]/ { sub(/^ +/, ""); line = line " " $0; next }
        folded { print substr(line, 2); folded = 0 }
        /run: >$/ { folded = 1; line = ""; next }
        /run: kerf / { sub(/^.*run: /, ""); print }
        /^ +- kerf / { sub(/^ +- /, ""); print }
        END { if (folded) print substr(line, 2) }' "$page"
}
mkdir "$tmp/bin" "$tmp/repository" && ln -s "$(realpath "$KERF")" "$tmp/bin/kerf"
export PATH=$tmp/bin:$PATH GITHUB_STEP_SUMMARY=summary.md
cp -r "$model" "$tmp/repository/model" && cd "$tmp/repository" || exit 70
expect 0 advise model --budget 5bits -f nvfp4,int8 -o recipe.json
expect 0 quantize model --recipe recipe.json -o good
expect 0 verify model good --write-limits limits.json

for block in 1 2; do
    rm -rf model-q* kerf.xml
    steps=$(commands $block)
    check "block $block has its steps" test "$(wc -l <<<"$steps")" -ge 2
    while read -r line; do
        [ "$line" != "kerf selftest" ] || continue # twelve seconds, and a test of its own
        check "$line" bash -ec "exec >out.txt 2>err.txt; $line"
    done <<<"$steps"
    check "block $block: JUnit" grep -q '<testsuite' kerf.xml
    check "block $block: a checkpoint" test -s model-q/model.safetensors
    last=$(tail -n 1 <<<"$steps")
    rm -rf model-q kerf.xml
    expect 0 quantize model -f mxfp4 -o model-q
    check "block $block: a model that lost more" test "$(bash -c "$last" >out.txt 2>err.txt; echo $?)" = 1
done
check "a summary" grep -q model-q summary.md
finish

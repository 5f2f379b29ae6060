#!/usr/bin/env bash
# completions.sh - what `kerf complete` offers is what the command takes, three shells complete a line
# by it as a person types it, and the pages for man are whole.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scripts=$DATA/../../cli/completions
mkdir "$tmp/bin" && ln -s "$(realpath "$KERF")" "$tmp/bin/kerf"
export PATH=$tmp/bin:$PATH

# offers WORD...: the candidates for the last one, without their descriptions.
offers() { kerf complete "$@" | cut -f 1; }

# --- what is offered -----------------------------------------------------------------------------

verbs=$(kerf help | sed -n 's/^  \([a-z]*\) .*/\1/p')
check "all verbs are offered" diff <(offers "") - <<<"$verbs"
for verb in $verbs; do
    check "options of $verb" diff <(offers "$verb" -- | sed '1,$s/^--//' | sort) \
        <(kerf help "$verb" | sed -n 's/^  ....--\([a-z0-9-]*\).*/\1/p' | sort)
done
expect 0 formats --json
check "formats" diff <(offers quantize -f "") <(json 'formats.*.name')
check "encoders" diff <(offers quantize -f nvfp4:4/6-m) <(printf 'nvfp4:4/6-mae\nnvfp4:4/6-mae-448\n')
for format in nvfp4 int4-g128 bf16; do
    expect 0 formats "$format" --json
    check "encoders of $format" diff <(offers quantize -f "$format:") \
        <(json 'formats.*.encoders.*.name' | sed "s/^/$format:/")
done
check "the last of a list" test "$(offers score x -f int8,mxfp4:f)" = int8,mxfp4:floor
check "behind a pattern" test "$(offers quantize x --tensor '*a*=nf4-d')" = '*a*=nf4-dq'
check "a pattern has none" test -z "$(offers quantize x --tensor nf)"
check "layouts" test "$(offers quantize x --layout dee)" = deepseek
check "words of an option" test "$(offers quantize --nan=s)" = --nan=saturate
check "machines" test "$(offers hardware h20)" = h200
check "verbs of help" test "$(offers help quant)" = quantize
check "files are the shell's" test -z "$(offers quantize mod)$(offers quantize x -o ou)"
check "after -- there are operands" test -z "$(offers quantize -- -)"
check "no such verb" test -z "$(offers quantise -)"
check "nothing at all" diff <(kerf complete) <(kerf complete "")

# --- shells ----------------------------------------------------------------------------------------

# types SHELL SETUP: the line that comes of these keys and tabs in an interactive shell. Ctrl-A and echo
# make it show what it has.
types() {
    printf '%s\n%b\nexit\n' "$2" \
        'kerf quanti\tx --lay\tmode\t-f nvfp4:4/6-absmax-4\t\001echo TYPED ' |
        timeout 60 script -qec "$1" /dev/null | tr -d '\r' | grep -o '^.*TYPED kerf.*$' | tail -n 1
}
typed="TYPED kerf quantize x --layout modelopt -f nvfp4:4/6-absmax-448"
tested=
if command -v script >/dev/null; then
    check "bash" grep -qF "$typed" <(types "bash --norc -i" "source $scripts/kerf.bash")
    tested+=" bash"
    if command -v zsh >/dev/null; then
        check "zsh" grep -qF "$typed" <(types "zsh -f -i" \
            "fpath+=($scripts); autoload -U compinit; compinit -u -D")
        tested+=" zsh"
    fi
fi
if command -v fish >/dev/null; then
    fish_offers() { HOME=$tmp fish -c "source $scripts/kerf.fish; complete -C '$1'" | cut -f 1; }
    check "fish: a verb" test "$(fish_offers 'kerf quanti')" = quantize
    check "fish: an encoder" test "$(fish_offers 'kerf quantize x -f nvfp4:4/6-absmax-4')" = nvfp4:4/6-absmax-448
    tested+=" fish"
fi
echo "shells:${tested:- none}"

# --- man ---------------------------------------------------------------------------------------------

for verb in $verbs; do
    expect 0 help "$verb" --man
    output_says '^\.SH EXAMPLES'
    for word in $(kerf help "$verb" | sed -n 's/^  ....--\([a-z-]*\).*/\1/p' | grep -vx help); do
        output_says "^[.\\].*fB.-.-${word//-/.-}"
    done
    check "title of kerf-$verb(1)" grep -qx "\.TH KERF.-${verb^^} 1 .*" "$tmp/out"
    if command -v groff >/dev/null; then
        check "kerf-$verb(1) has no fault" test -z "$(groff -man -Tutf8 -ww -z "$tmp/out" 2>&1)"
        check "it shows the details" grep -qF "$(kerf help "$verb" | sed -n 3p)" \
            <(groff -man -Tutf8 -rLL=120n "$tmp/out" | sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g; s/‐/-/g; s/−/-/g; s/’/'"'"'/g')
    fi
done
expect 0 help --man
output_says 'kerf.-quantize'

finish

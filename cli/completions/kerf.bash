# Completion of kerf for bash. The command itself says what a word could become: kerf complete.
_kerf() {
    local line=${COMP_LINE:0:COMP_POINT} words word kept
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=("")
    word=${words[-1]}
    # bash replaces what follows the last of its word breaks, ':' and '=' among them
    kept=${word%"${word##*[:=]}"}
    [[ $COMP_WORDBREAKS == *:* || $kept != *: ]] || kept=
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        COMPREPLY+=("${word#"$kept"}")
    done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -o bashdefault -o default -F _kerf kerf

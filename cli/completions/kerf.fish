# Completion of kerf for fish. The command itself says what a word could become: kerf complete.
function __kerf_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete $words[2..-1] 2>/dev/null
end
complete -c kerf -a '(__kerf_complete)'

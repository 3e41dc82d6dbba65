"""``jupyter tpu completion``: the shell completes commands, options and TPUs."""

from __future__ import annotations

import os

import click

from ..terminal.grammar import argument, command, examples

PROGRAM = "jupyter-tpu"
#: Set by the shell when it asks for completions.
VARIABLE = "_JUPYTER_TPU_COMPLETE"

# `jupyter tpu …` is completed as `jupyter-tpu …`; any other `jupyter …` as before.
_THROUGH_JUPYTER = {
    "bash": """\
_jupyter_tpu_before=$(complete -p jupyter 2>/dev/null | sed -nE 's/.* -F ([^ ]+) .*/\\1/p')
_jupyter_tpu_through_jupyter() {
    if [[ ${COMP_WORDS[1]} == tpu && $COMP_CWORD -gt 1 ]]; then
        local COMP_WORDS=(jupyter-tpu "${COMP_WORDS[@]:2}") COMP_CWORD=$((COMP_CWORD - 1))
        _jupyter_tpu_completion jupyter-tpu
    elif [[ -n $_jupyter_tpu_before ]]; then
        $_jupyter_tpu_before "$@"
    fi
}
complete -o nosort -o bashdefault -o default -F _jupyter_tpu_through_jupyter jupyter
""",
    "zsh": """\
_jupyter_tpu_before=${_comps[jupyter]}
_jupyter_tpu_through_jupyter() {
    if [[ ${words[2]} == tpu && $CURRENT -gt 2 ]]; then
        words=(jupyter-tpu "${words[@]:2}")
        (( CURRENT -= 1 ))
        _jupyter_tpu_completion
    else
        ${_jupyter_tpu_before:-_default} "$@"
    fi
}
compdef _jupyter_tpu_through_jupyter jupyter
""",
    "fish": r"""
complete -c jupyter -n 'string match -qr "^jupyter\s+tpu\s" (commandline -cp)' -f -a \
    '(complete -C (commandline -cp | string replace -r "^jupyter\s+tpu" jupyter-tpu))'
""",
}


@command(
    "completion",
    epilog=examples(
        'bash: eval "$(jupyter tpu completion bash)"      in ~/.bashrc',
        'zsh:  eval "$(jupyter tpu completion zsh)"       in ~/.zshrc',
        "fish: jupyter tpu completion fish | source       in ~/.config/fish/config.fish",
    ),
)
@argument(
    "shell", metavar="bash|zsh|fish", type=click.Choice(list(_THROUGH_JUPYTER)), help="Your shell."
)
def completion(shell: str) -> None:
    """Print a shell's completion script.

    It completes commands, options and TPUs after `jupyter tpu` and `jupyter-tpu`.
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(root, {}, PROGRAM, VARIABLE).source())
    print(_THROUGH_JUPYTER[shell])


def complete(root: click.Command) -> int:
    """Answers the shell, which has set VARIABLE; returns the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, PROGRAM, VARIABLE, os.environ[VARIABLE])

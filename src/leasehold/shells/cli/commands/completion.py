"""Shell completion, generated from the parsers so that it cannot drift."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from leasehold.shells.cli import output
from leasehold.shells.cli.table import COMMANDS, UNDER, Command, under


def completion(args: Namespace) -> int:
    """lease completion"""
    if args.runs:
        from leasehold.api import opening, running

        output.data(" ".join(row["name"] for row in running.status(opening.open_home())))
        return 0
    from leasehold.shells.cli.main import parsers

    output.data({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](parsers()), end="")
    return 0


def _words(command: Command, parsers: dict[str, ArgumentParser]) -> list[str]:
    """List the words that can follow a command: options, choices, and its subcommands."""
    actions = parsers[command.name]._actions
    words = [option for action in actions for option in action.option_strings if option.startswith("--")]
    words += [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]
    return words + [row.name.split()[1] for row in under(command.name)]


def _bash(parsers: dict[str, ArgumentParser]) -> str:
    longest_first = sorted(COMMANDS, key=lambda command: " " not in command.name)
    cases = "\n".join(f'    {_pattern(one)}) words="{" ".join(_words(one, parsers))}" ;;' for one in longest_first)
    listed = " ".join(one.name for one in COMMANDS if one.group != UNDER)
    return f"""# bash completion for lease; use: source <(lease completion bash)
_lease() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words="" second=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{listed} --help --version"
  else
    if [ "$COMP_CWORD" -gt 2 ]; then second="${{COMP_WORDS[2]}}"; fi
    case "${{COMP_WORDS[1]}} $second" in
{cases}
    esac
    case "$current" in -*) ;; *) words="$words $(lease completion --runs 2>/dev/null)" ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ ${{#COMPREPLY[@]}} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _lease lease
"""


def _pattern(command: Command) -> str:
    """Write the shell pattern of a command's first two words; an older name is completed too."""
    own = f'"{command.name}"' if " " in command.name else f'"{command.name} "*'
    return f'{own}|"{command.old} "*' if command.old else own


def _zsh(parsers: dict[str, ArgumentParser]) -> str:
    return (
        "# zsh completion for lease; use: source <(lease completion zsh)\nautoload -U +X bashcompinit && bashcompinit\n"
        + _bash(parsers)
    )


def _fish(parsers: dict[str, ArgumentParser]) -> str:
    lines = ["# fish completion for lease; use: lease completion fish | source"]
    for command in COMMANDS:
        noun, _, verb = command.name.rpartition(" ")
        first = f"__fish_seen_subcommand_from {noun}; and " if noun and not command.old else ""
        if noun:
            verbs = " ".join(row.name.split()[1] for row in under(noun))
            here = f"__fish_seen_subcommand_from {noun}; and not __fish_seen_subcommand_from {verbs}"
        else:
            here = "__fish_use_subcommand"
        lines.append(f"complete -c lease -f -n '{here}' -a {verb} -d {_quoted(command.summary)}")
        own = [word for word in _words(command, parsers) if word not in {row.name.split()[1] for row in under(verb)}]
        for word in own:
            taken = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c lease -n '{first}__fish_seen_subcommand_from {verb}' {taken}")
    lines.append("complete -c lease -n 'not __fish_use_subcommand' -a '(lease completion --runs 2>/dev/null)'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

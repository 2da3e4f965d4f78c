"""Shell completion, written from the parser so that it cannot drift."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Spell the completion script for one shell."""
    verbs = _verbs(parser)
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](verbs)


def _verbs(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[str]]]:
    found: dict[str, tuple[str, list[str]]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            abouts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, verb in action.choices.items():
                found[name] = (abouts.get(name, ""), _words(verb))
    return found


def _words(verb: argparse.ArgumentParser) -> list[str]:
    words = [option for action in verb._actions for option in action.option_strings if option.startswith("--")]
    for action in verb._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += list(action.choices)
        elif action.choices and not action.option_strings:
            words += [str(choice) for choice in action.choices]
    return words


def _bash(verbs: dict[str, tuple[str, list[str]]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(words)}" ;;' for name, (_, words) in verbs.items())
    return f"""# bash completion for lease; use: source <(lease completion bash)
_lease() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{" ".join(verbs)} --help --version"
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "$current" in -*) ;; *) words="$words $(lease completion --runs 2>/dev/null)" ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ ${{#COMPREPLY[@]}} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _lease lease
"""


def _zsh(verbs: dict[str, tuple[str, list[str]]]) -> str:
    return (
        "# zsh completion for lease; use: source <(lease completion zsh)\nautoload -U +X bashcompinit && bashcompinit\n"
        + _bash(verbs)
    )


def _fish(verbs: dict[str, tuple[str, list[str]]]) -> str:
    lines = ["# fish completion for lease; use: lease completion fish | source"]
    for name, (about, words) in verbs.items():
        lines.append(f"complete -c lease -f -n __fish_use_subcommand -a {name} -d {_quoted(about)}")
        for word in words:
            spelled = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c lease -n '__fish_seen_subcommand_from {name}' {spelled}")
    lines.append("complete -c lease -n 'not __fish_use_subcommand' -a '(lease completion --runs 2>/dev/null)'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

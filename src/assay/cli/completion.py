"""`assay completion`: scripts for bash, zsh and fish, and the candidates that they ask for.

A script sends the words before the cursor to `assay __complete`, which prints one candidate a line,
with a tab and a description. Nothing heavy is imported: it runs at every Tab.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.errors import AssayError, UsageError, did_you_mean

HIDDEN_VERB = "__complete"
_RUNS_SHOWN = 200

_BASH = """\
_assay_completion() {
    local word="${COMP_LINE:0:COMP_POINT}" line candidate prefix
    # bash splits words at : and =, which targets and options hold: take the line itself.
    local -a words=() candidates=()
    read -r -a words <<<"$word"
    [[ "$word" == *[[:space:]] ]] && words+=("")
    local current="${words[-1]}"
    prefix="${current%"${current##*[:=]}"}"
    while IFS= read -r line; do
        candidate="${line%%$'\\t'*}"
        [[ "$COMP_WORDBREAKS" == *:* ]] && candidate="${candidate#"$prefix"}"
        candidates+=("$candidate")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    COMPREPLY=("${candidates[@]}")
}
complete -o default -F _assay_completion assay
"""

_ZSH = """\
#compdef assay
_assay() {
    local -a described
    local line name
    while IFS= read -r line; do
        name="${line%%$'\\t'*}"
        described+=("${name//:/\\\\:}:${line#*$'\\t'}")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#described} )); then
        _describe assay described -U
    else
        _files
    fi
}
compdef _assay assay
"""

_FISH = """\
function __assay_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l found ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command assay --no-files --arguments '(__assay_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

Candidate = tuple[str, str]


def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
) -> None:
    """Print a completion script for your shell.

    It completes commands, options, targets, data sets and run names.

    bash: add to ~/.bashrc: eval "$(assay completion bash)"

    zsh: add to ~/.zshrc after compinit: eval "$(assay completion zsh)"

    fish: assay completion fish > ~/.config/fish/completions/assay.fish
    """
    if shell not in SCRIPTS:
        known = ", ".join(SCRIPTS)
        raise UsageError(f"shell {shell!r} is not one of {known}{did_you_mean(shell, SCRIPTS)}")
    sys.stdout.write(SCRIPTS[shell])


def print_candidates(root: Any, words: Sequence[str]) -> None:
    """What may stand in place of the last word, one candidate a line; silent about any mistake."""
    try:
        found = list(candidates(root, words))
    except (AssayError, OSError):
        return
    sys.stdout.write("".join(f"{value}\t{about}\n" for value, about in found))


def candidates(root: Any, words: Sequence[str]) -> Iterator[Candidate]:
    """Candidates for the last of the words that follow `assay`; `root` is the app's command."""
    *before, current = words or [""]
    command, pending, place, given = root, None, 0, dict[str, str]()
    for word in before:
        if pending is not None:
            given[pending.name], pending = word, None
        elif word.startswith("-") and word != "-":
            pending = _value_option(command, word)
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return
            command = command.commands[word]
        else:
            place += 1
    flag, equals, rest = current.partition("=")
    option = _value_option(command, flag) if equals and flag.startswith("--") else None
    if option is not None:
        yield from ((f"{flag}={value}", about) for value, about in _values(option, rest, given))
    elif pending is not None:
        yield from _values(pending, current, given)
    elif current.startswith("-"):
        yield from _flags(command, current)
    elif hasattr(command, "commands"):
        for name, each in command.commands.items():
            if name.startswith(current) and not each.hidden:
                yield name, each.get_short_help_str(60)
    elif (argument := _argument(command, place)) is not None:
        yield from _values(argument, current, given)


def _value_option(command: Any, word: str) -> Any:
    """The option whose value comes next; None for a switch, an unknown one, and `--name=value`."""
    for param in command.params:
        if word in param.opts and param.param_type_name == "option":
            return None if param.is_flag or param.count else param
    return None


def _argument(command: Any, place: int) -> Any:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if place < len(arguments):
        return arguments[place]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _flags(command: Any, current: str) -> Iterator[Candidate]:
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden:
            about = (param.help or "").partition(". ")[0]
            for flag in (*param.opts, *param.secondary_opts):
                if flag.startswith(current):
                    yield flag, about[:80]
    if "--help".startswith(current):
        yield "--help", "Show this message and exit."


def _values(param: Any, current: str, given: dict[str, str]) -> Iterator[Candidate]:
    find = _COMPLETERS.get(param.name)
    # A path of a run file or a report may be called `run` too: the shell completes files.
    if find is None or param.type_descriptor.is_path:
        return
    for value, about in find(given):
        if value.startswith(current):
            yield value, about


def _targets(_given: dict[str, str]) -> Iterator[Candidate]:
    from assay.cli.settings import read_project_file
    from assay.targets.opening import complete_target

    named = read_project_file().get("target")
    for name, table in named.items() if isinstance(named, dict) else ():
        if isinstance(table, dict):
            yield name, f"assay.toml: {_one_line(table.get('target', ''))}"
    yield from complete_target("")


def _datasets(_given: dict[str, str]) -> Iterator[Candidate]:
    from assay.data.beir_download import MD5, PREFIX
    from assay.data.load import KNOWN

    yield from KNOWN.items()
    yield from ((f"{PREFIX}{name}", "downloaded once") for name in MD5 if name not in KNOWN)


def _runs(given: dict[str, str]) -> Iterator[Candidate]:
    """Names of run folders, newest first; no file of a run is read."""
    out = given.get("out") or given.get("folder") or os.environ.get("ASSAY_OUT") or "runs"
    yield "latest", "the newest run"
    if not Path(out).is_dir():
        return
    names = (path.name for path in Path(out).iterdir() if (path / "run.json").is_file())
    for name in sorted(names, reverse=True)[:_RUNS_SHOWN]:
        yield name, ""


def _compared(given: dict[str, str]) -> Iterator[Candidate]:
    yield "main", "the newest run of that branch"
    yield from _runs(given)


def _names_in(reference: str) -> Callable[[dict[str, str]], Iterator[Candidate]]:
    """The names in a table of another module, `module:name`, which is imported when asked for."""

    def names(_given: dict[str, str]) -> Iterator[Candidate]:
        from assay.targets.target_kinds import load

        yield from ((str(name), "") for name in load(reference))

    return names


def _one_line(text: object) -> str:
    from assay.net.redact import mask_secrets, printable

    return printable(str(mask_secrets(str(text)))).replace("\n", " ").replace("\t", " ")[:80]


_COMPLETERS: dict[str, Callable[[dict[str, str]], Iterator[Candidate]]] = {
    "target": _targets,
    "url": _targets,
    "baseline": _targets,
    "dataset": _datasets,
    "name": _datasets,
    "source": _datasets,
    "run": _runs,
    "run_a": _runs,
    "run_b": _runs,
    "more": _runs,
    "runs": _runs,
    "report": _runs,
    "resume": _runs,
    "compare_to": _compared,
    "shell": _names_in("assay.cli.completion:SCRIPTS"),
    "track": _names_in("assay.run.config:TRACKS"),
    "preset": _names_in("assay.targets.rest:PRESETS"),
    "mode": _names_in("assay.search.modes:MODES"),
    "form": _names_in("assay.cli.export:FORMATS"),
    "sort": _names_in("assay.run.listing:ORDERS"),
}
"""What completes the value of an option or argument, by the name of its parameter."""

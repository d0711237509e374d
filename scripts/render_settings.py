"""Writes docs/settings.md, every option in one table; a test fails when it is stale.

python scripts/render_settings.py [--check]
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from assay.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
INTRODUCTION = """# Settings

Made from the code by `scripts/render_settings.py`; do not edit.

Every option of `assay eval` is also a variable, `ASSAY_NAME` (`--top-k` is `ASSAY_TOP_K`), a key
of `assay.toml` (`top_k = 10`) and a keyword of [`assay.evaluate`](python.md). A flag wins over the
variable, the variable over the file. `assay.toml` is found in the working folder and the folders
above; paths in it are relative to it. Keys at its top are for every command, those under `[eval]`
for one, those under `[target.NAME]` for a [named target](targets.md#named-targets). In a variable,
values of a repeatable option are separated by `;`.

[cli.md](cli.md) has the full text of every command,
[judge.md](judge.md#choosing-a-model) the variables of models.
"""
_MAX_WORDS = 7
# A sentence, or what stands before a colon, unless it is the colon of a target ("rest: target").
_END = re.compile(r"(?<!rest)(?<!openai)(?<!\bst)(?<!onnx)(?<=[a-z)\d])[.:;](?:\s|$)")


def render() -> str:
    """The whole page."""
    options: dict[str, Any] = {}
    users = defaultdict[str, list[str]](list)
    for words, command in app.all_verbs():
        name = " ".join(words)
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                flag = next(each for each in option.opts if each.startswith("--"))
                options.setdefault(flag, option)
                users[flag].append(name)
    first = [flag for flag in options if "eval" in users[flag]]
    rest = sorted(flag for flag in options if "eval" not in users[flag])
    parts = [INTRODUCTION, "## Options of `assay eval`\n", _table(first, options, {})]
    parts += ["## Options of other commands\n", _table(rest, options, users)]
    return "\n".join(parts)


def _table(flags: list[str], options: dict[str, Any], users: dict[str, list[str]]) -> str:
    head = "| option | what it sets | default |" + (" commands |" if users else "")
    lines = [head, "|---|---|---|" + ("---|" if users else "")]
    for flag in flags:
        if flag == "--help":
            continue
        option = options[flag]
        line = f"| `{flag}` | {_summary(option)} | {_default(option)} |"
        lines.append(line + (f" {', '.join(users[flag][:4])} |" if users else ""))
    return "\n".join(lines) + "\n"


def _summary(option: Any) -> str:
    """The first sentence of the help, and the variable if its name is another one."""
    text = re.sub(r"^With(?:out)? (?:a URL|--[\w-]+(?: or --[\w-]+)?): ", "", option.help or "")
    text = re.sub(r"^Logged answers: ", "", text)
    sentence = _END.split(text)[0].replace("|", "\\|").rstrip(".")
    words = sentence.split()
    short = " ".join(words[:_MAX_WORDS]).rstrip(",") + ("…" if len(words) > _MAX_WORDS else "")
    if short[1:2].islower() or short[1:2] == " ":
        short = short[:1].lower() + short[1:]
    variable = option.envvar if isinstance(option.envvar, str) else ""
    usual = "ASSAY_" + option.opts[0].strip("-").upper().replace("-", "_")
    return short + (f" (`{variable}`)" if variable and variable != usual else "")


def _default(option: Any) -> str:
    value = option.default
    known = isinstance(value, str | int | float | Path) and value not in ("", False)
    if not known or option.multiple:
        return ""
    return f"`{getattr(value, 'value', value)}`"


def main() -> None:
    """Write the page, or say that it is stale."""
    page = render()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE} is stale")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

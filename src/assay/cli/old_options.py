"""Spellings of options that scripts of an earlier release use; accepted for one release."""

from collections.abc import Iterator, Sequence

from assay.cli.console import say

# Not imported: every command reads this, and most need nothing of answers.
POISON_KINDS = frozenset(["all", "override", "false_fact", "fake_citation", "exfiltration"])
# The option of today, and what becomes of the value.
_RENAMED = {
    "--bm25-k1": ("--bm25", "k1={}"),
    "--bm25-b": ("--bm25", "b={}"),
    "--bm25-delta": ("--bm25", "delta={}"),
    "--bm25-title-weight": ("--bm25", "title_weight={}"),
    "--bm25-language": ("--bm25", "language={}"),
    "--bm25-stop-words": ("--bm25", "stop_words={}"),
    "--model": ("--embedder", "onnx:{}"),
    "--ground-truth": ("--references", "{}"),
    "--nuggets": ("--references", "{}"),
    "--out": ("--runs", "{}"),
    "--poison-kind": ("--poison", "{}"),
}
# The verbs in which it was renamed, if an option of the old name goes on in others.
_ONLY = {"--nuggets": ("eval", "score"), "--out": ("runs", "report", "compare")}


def current_spelling(arguments: Sequence[str]) -> list[str]:
    """`--bm25-k1 0.9` as `--bm25 k1=0.9`, with a line on stderr about each.

    Only values that follow their option, or stand behind its `=`, are changed.
    """
    found: list[str] = []
    waiting = iter(_with_poison_kinds(arguments))
    for word in waiting:
        flag, equals, value = word.partition("=")
        if flag == "--reasons":
            say("warning: --reasons is not needed any more: a judge rates with its reason")
            continue
        if flag not in _RENAMED or arguments[0] not in _ONLY.get(flag, arguments):
            found.append(word)
            continue
        name, form = _RENAMED[flag]
        value = value if equals else next(waiting, "")
        # A comma separates the parameters of BM25, so stop words have another mark between them.
        found += [name, form.format(value.replace(",", "|") if name == "--bm25" else value)]
        say(f"warning: {flag} is now {name} {form.format('VALUE')}; the old name will be removed")
    return found


def _with_poison_kinds(arguments: Sequence[str]) -> Iterator[str]:
    """`--poison` without a kind as `--poison=all`: an option of typer always has a value."""
    for place, word in enumerate(arguments):
        following = "".join(arguments[place + 1 : place + 2])
        is_bare = word == "--poison" and not POISON_KINDS.issuperset(following.split(","))
        yield "--poison=all" if is_bare else word

"""Spellings of options that scripts of an earlier release use; accepted for one release."""

from collections.abc import Sequence

from assay.cli.console import say

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
}
# The verbs in which it was renamed, if an option of the old name goes on in others.
_ONLY = {"--nuggets": ("eval", "score"), "--out": ("runs", "report", "compare")}


def current_spelling(arguments: Sequence[str]) -> list[str]:
    """`--bm25-k1 0.9` as `--bm25 k1=0.9`, with a line on stderr about each.

    Only values that follow their option, or stand behind its `=`, are changed.
    """
    found: list[str] = []
    waiting = iter(arguments)
    for word in waiting:
        flag, equals, value = word.partition("=")
        if flag not in _RENAMED or arguments[0] not in _ONLY.get(flag, arguments):
            found.append(word)
            continue
        name, form = _RENAMED[flag]
        value = value if equals else next(waiting, "")
        # A comma separates the parameters of BM25, so stop words have another mark between them.
        found += [name, form.format(value.replace(",", "|") if name == "--bm25" else value)]
        say(f"warning: {flag} is now {name} {form.format('VALUE')}; the old name will be removed")
    return found

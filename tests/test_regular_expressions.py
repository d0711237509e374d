"""No regular expression takes more than linear time: agents, data sets and pages choose the texts.

Each pattern gets a run of one sign, alone and after the words that occur in the pattern, and is
used as the source uses it. Where that takes long, a text of four times the size must take about
four times as long.
"""

import ast
import importlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import assay

SOURCE = Path(assay.__file__).parent
USES = {"search", "match", "fullmatch", "sub", "subn", "finditer", "findall", "split"}
SIGNS = [
    *"aA1é\u4e2d \t\n,.;:!?-_/\\'\"`([{<&=@#%*|+~",
    *("a ", "a,", "a.", "a-", "1.", "1,", "1 ", "aa1", "A.", "[]", "()", "{}", "<a", "\n ", ". "),
    *("a\n", "x-", "a=", "?a", "a/", "- ", "a@", '"a"', "a: ", "Aa", "Aa ", "\r\n"),
]
AFTER_WORDS = [" ", "a", "1"]
SIZE = 1_000
SOON_S, FAR_TOO_LONG_S = 0.0004, 0.002
FLAG = re.compile(r"re\.([A-Z]+)")
WORD = re.compile(r"[\w<>/:`-]{2,}")


def modules() -> Iterator[tuple[str, str]]:
    """Names and sources of those that match anything."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        source = path.read_text(encoding="utf-8")
        if "\nimport re\n" in source:
            yield ".".join(parts[:-1] if path.stem == "__init__" else parts), source


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in((*value, *value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from patterns_in(each)


def found() -> dict[re.Pattern[Any], set[str]]:
    """Every pattern that a module has, or that a call has in place, and what is asked of it."""
    uses: dict[re.Pattern[Any], set[str]] = defaultdict(set)
    for module, source in modules():
        asked: dict[str, set[str]] = defaultdict(set)
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            whose, use = ast.unparse(node.func.value), node.func.attr
            if whose == "re" and use in USES and isinstance(node.args[0], ast.Constant):
                flags = [getattr(re, each) for each in FLAG.findall(ast.unparse(node))]
                uses[re.compile(str(node.args[0].value), sum(flags))].add(use)
            elif use in USES:
                asked[whose].add(use)
        for name, value in vars(importlib.import_module(module)).items():
            for pattern in patterns_in(value):
                uses[pattern] |= asked[name]
    return uses


def texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Makers of texts of a size."""
    source = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    words = sorted(set(WORD.findall(source)))[:12]
    pairs = [("", sign) for sign in (*SIGNS, *words)] + [
        (word, sign) for word in words for sign in AFTER_WORDS
    ]
    for start, sign in pairs:

        def make(size: int, start: str = start, sign: str = sign) -> Any:
            text = start + sign * (size // len(sign)) + ("" if start else "\0")
            return text if isinstance(pattern.pattern, str) else text.encode()

        yield make


def seconds(pattern: re.Pattern[Any], use: str, text: Any) -> float:
    """Of this thread's processor time, the better of two."""
    ask = pattern.findall if use in {"sub", "subn", "finditer", "split"} else getattr(pattern, use)
    taken = []
    for _ in range(2):
        began = time.thread_time()
        ask(text)
        taken.append(time.thread_time() - began)
        if taken[-1] < SOON_S:
            break
    return min(taken)


def is_slow(pattern: re.Pattern[Any], use: str, make: Callable[[int], Any]) -> bool:
    if seconds(pattern, use, make(SIZE // 4)) > FAR_TOO_LONG_S:
        return True  # cubic, or worse: a longer text would take minutes
    short = seconds(pattern, use, make(SIZE))
    return short > SOON_S and seconds(pattern, use, make(4 * SIZE)) > 8 * short


@pytest.mark.slow
def test_no_regular_expression_takes_more_than_linear_time() -> None:
    slow = {}
    for pattern, uses in found().items():
        for make in texts(pattern):
            for use in uses or {"search"}:
                if pattern.pattern not in slow and is_slow(pattern, use, make):
                    slow[pattern.pattern] = f"{use}: {make(12)!r}"
    assert slow == {}

"""The changes of a source file that `scripts/mutants.py` tries, one at a time.

A comparison, an arithmetic or logical operator, a number, `True` or `False`, a missing `not`, the
other branch of a conditional expression. Left out: what stands in f-strings, which are messages,
and the flags of a dataclass (`frozen`, `slots`), which the type checker holds.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    line: int
    what: str
    source: str
    lines: tuple[int, int] | None
    """The first and last line of the statement that is changed, without the block under it;
    None if the import executes it, outside of any function."""


_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn)),
    *((ast.Is, ast.IsNot), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
_OTHER: dict[type, type] = {
    **{b: a for a, b in _PAIRS},
    **dict(_PAIRS),
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


class _Change(ast.NodeTransformer):
    """Makes change number `wanted`, and counts; with -1 it only counts."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted, self.count = wanted, 0
        self.line, self.what = 0, ""

    def _is_next(self, node: ast.expr, what: str) -> bool:
        self.count += 1
        if self.count - 1 == self.wanted:
            self.line, self.what = node.lineno, what
            return True
        return False

    def _other(self, node: ast.expr, operator: Any) -> Any:
        """The operator, or another one in its place."""
        other = _OTHER.get(type(operator))
        if other and self._is_next(node, f"{type(operator).__name__} to {other.__name__}"):
            return other()
        return operator

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.ops = [self._other(node, operator) for operator in node.ops]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node.left, "value", 0), int | float
        )
        node.op = node.op if text else self._other(node, node.op)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.op = self._other(node, node.op)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._is_next(node, "without not"):
            return node.operand
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._is_next(node, f"{value} to {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int | float) and self._is_next(node, f"{value} to {value + 1}"):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self._is_next(node, "the other branch"):
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        decorators, node.decorator_list = node.decorator_list, []
        self.generic_visit(node)
        node.decorator_list = decorators
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # a message


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All of one file."""
    counting = _Change()
    counting.visit(ast.parse(source))
    for number in range(counting.count):
        change, tree = _Change(number), ast.parse(source)
        changed = ast.unparse(ast.fix_missing_locations(change.visit(tree)))
        yield Mutant(path, change.line, change.what, changed, _statement(source, change.line))


def unchanged(source: str) -> str:
    """The source as a mutant would have it, without comments and in another layout."""
    return ast.unparse(ast.parse(source))


def _statement(source: str, line: int) -> tuple[int, int] | None:
    best, is_called = (line, line), False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or line
            if line <= last:
                best = (node.lineno, last)  # nested statements come later
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_called = True
    return best if is_called else None

"""Small changes of Python source, each of which a test should notice.

A mutant is a replacement of one expression or statement in the text, so that the rest of the
file, its line numbers included, stays as it is.  Annotations, messages of exceptions, assertions,
docstrings and formatted strings are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: path relative to the package.
        kind: what is changed.
        line: first line of the statement that holds the change.
        last: its last line.
        start: byte offset of the replaced text.
        end: byte offset of its end.
        new: replacement.
    """

    file: str
    kind: str
    line: int
    last: int
    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        """Return the text with the change."""
        raw = text.encode()
        return (raw[: self.start] + self.new.encode() + raw[self.end :]).decode()

    def shown(self, text: str) -> tuple[str, str]:
        """Return the lines that differ, before and after."""
        raw = text.encode()
        first = raw.rfind(b"\n", 0, self.start) + 1
        last = raw.find(b"\n", self.end)
        before = raw[first:last].decode()
        after = (raw[first : self.start] + self.new.encode() + raw[self.end : last]).decode()
        return " ".join(before.split()), " ".join(after.split())


BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
METHODS = {
    "add_": "sub_", "sub_": "add_", "mul_": "div_", "div_": "mul_", "clamp_min": "clamp_max",
    "clamp_max": "clamp_min", "clamp_min_": "clamp_max_", "sum": "mean", "mean": "sum",
    "square": "abs", "square_": "abs_", "sqrt": "square", "rsqrt": "sqrt", "exp": "expm1",
    "expm1": "exp", "log": "log1p", "log1p": "log", "mT": "data", "T": "data", "any": "all",
    "all": "any", "sin": "cos", "cos": "sin", "addcmul_": "addcdiv_", "maximum": "minimum",
    "minimum": "maximum", "argmax": "argmin", "amax": "amin", "cumsum": "cumprod",
    "loc": "variance", "variance": "loc", "erfc": "erf", "lgamma": "digamma", "max": "min",
    "min": "max",
}  # fmt: skip
SYMMETRIC = {"isinstance", "issubclass", "mul", "add", "maximum", "minimum", "max", "min"}
"""Functions for which the order of arguments does not matter, or is obvious."""
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global)


class _Collector(ast.NodeVisitor):
    def __init__(self, file: str, text: str) -> None:
        self.file, self.raw = file, text.encode()
        self.starts = [0]
        for row in self.raw.split(b"\n"):
            self.starts.append(self.starts[-1] + len(row) + 1)
        self.found: list[Mutant] = []
        self.statement: ast.stmt | None = None
        self.arguments: list[list[str]] = []

    def offsets(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def source(self, node: ast.AST) -> str:
        start, end = self.offsets(node)
        return self.raw[start:end].decode()

    def replace(self, kind: str, start: int, end: int, new: str, at: ast.AST) -> None:
        first, last = at.lineno, at.end_lineno  # type: ignore[attr-defined]
        self.found.append(Mutant(self.file, kind, first, last, start, end, new))

    def between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator, which is the only thing but parentheses between two operands."""
        start, end = self.offsets(left)[1], self.offsets(right)[0]
        gap = self.raw[start:end].decode()
        if gap.count(old) == 1 and "#" not in gap:
            at = start + gap.index(old)
            self.replace(kind, at, at + len(old), new, left)

    # --- statements --------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, SKIPPED):
            return
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        self.arguments.append([n for n in names if n not in ("self", "cls", "ctx")])
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for part in node.body:
            self.visit(part)
        self.arguments.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:  # without decorators
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        if not self.arguments and any(n == "__all__" or isinstance(node.value, ast.Subscript)
                                      for n in names):  # fmt: skip
            return
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if self.arguments and isinstance(node.value, ast.Call):
            self.replace("statement removed", *self.offsets(node), "pass", node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace("statement removed", *self.offsets(node), "pass", node)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.source(node.test):
            return
        only_raises = all(isinstance(part, ast.Raise) for part in node.body)
        if not only_raises or not isinstance(node.test, ast.Compare):
            new = f"not ({self.source(node.test)})"
            self.replace("condition negated", *self.offsets(node.test), new, node.test)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) > 1:
            first, second = node.value.elts[:2]
            self.swap("returned values swapped", first, second)
        elif self.arguments and self.arguments[-1] and not isinstance(node.value, ast.Constant):
            other = next((n for n in self.arguments[-1] if n != self.source(node.value)), None)
            if other is not None:
                self.replace("argument returned", *self.offsets(node.value), other, node.value)
        self.generic_visit(node)

    # --- expressions -------------------------------------------------------------------------

    def swap(self, kind: str, a: ast.AST, b: ast.AST) -> None:
        (start, end), (start_, end_) = self.offsets(a), self.offsets(b)
        if self.raw[start:end] != self.raw[start_:end_]:
            new = self.raw[start_:end_] + self.raw[end:start_] + self.raw[start:end]
            self.replace(kind, start, end_, new.decode(), a)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if type(node.op) in BINARY and not text:
            self.between("operator", node.left, node.right, *BINARY[type(node.op)])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            self.between("comparison", left, right, *COMPARE[type(op)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self.between("and/or", node.values[0], node.values[1], old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub | ast.Not):
            inner = f"({self.source(node.operand)})"
            self.replace("sign or not dropped", *self.offsets(node), inner, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace("constant", *self.offsets(node), str(not value), node)
        elif isinstance(value, int):
            self.replace("constant", *self.offsets(node), str(value + 1), node)
        elif isinstance(value, float):
            self.replace("constant", *self.offsets(node), str(2 * value or 1.0), node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in METHODS and isinstance(node.ctx, ast.Load):
            end = self.offsets(node)[1]
            self.replace("method", end - len(node.attr), end, METHODS[node.attr], node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        names = node.args[:2]
        alike = len(names) == 2 and all(isinstance(a, ast.Name | ast.Attribute) for a in names)
        called = self.source(node.func).rpartition(".")[2]
        if alike and called not in SYMMETRIC:
            self.swap("arguments swapped", *names)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not isinstance(node.slice, ast.Constant):
            self.visit(node.slice)
        elif isinstance(node.slice.value, int):
            self.visit_Constant(node.slice)


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Yield all mutants of a file that can be compiled."""
    collector = _Collector(file, text)
    collector.visit(ast.parse(text))
    for mutant in collector.found:
        try:
            compile(mutant.apply(text), file, "exec")
        except SyntaxError:
            continue
        yield mutant

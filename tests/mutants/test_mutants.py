"""The mutants of a small text, and one that a test of the package notices."""

from tests.mutants import patching
from tests.mutants.operators import mutants
from tests.mutants.report import counts
from tests.mutants.sampling import SUITES, files_of, run, sample

TEXT = '''
"""Not a number: -1."""

from typing import Literal

Name = Literal[1, 2]


def formula(x: float, y: float = 2.0, *, root: bool = False) -> float:
    """Return ``x - y``; 3 is not changed."""
    if x < 0 and y > 1:
        raise ValueError(f"{x - 1} is negative")
    total = -x * y
    total += 1
    return f"{x + y}" if root else (total, x)
'''


def changed(kind: str) -> set[tuple[str, str]]:
    return {m.shown(TEXT) for m in mutants("text.py", TEXT) if m.kind == kind}


def test_operators_constants_and_conditions_are_changed():
    assert changed("operator") == {("total = -x * y", "total = -x / y")}
    assert changed("sign or not dropped") == {("total = -x * y", "total = (x) * y")}
    assert ("total += 1", "pass") in changed("statement removed")
    assert ("if x < 0 and y > 1:", "if x < 0 or y > 1:") in changed("and/or")
    assert ("if x < 0 and y > 1:", "if x <= 0 and y > 1:") in changed("comparison")
    assert ("if x < 0 and y > 1:", "if not (x < 0 and y > 1):") in changed("condition negated")
    head = "def formula(x: float, y: float = {}, *, root: bool = {}) -> float:"
    before = head.format("2.0", "False")
    assert changed("constant") == {
        (before, head.format("4.0", "False")),
        (before, head.format("2.0", "True")),
        ("if x < 0 and y > 1:", "if x < 1 and y > 1:"),
        ("if x < 0 and y > 1:", "if x < 0 and y > 2:"),
        ("total += 1", "total += 2"),
    }


def test_messages_docstrings_and_annotations_are_left_alone():
    for mutant in mutants("text.py", TEXT):
        before, _ = mutant.shown(TEXT)
        assert "raise" not in before
        assert "Literal" not in before
        assert '"""' not in before


def test_the_order_follows_from_the_seed():
    def order(seed):
        return [(m.start, m.new) for m in sample("moments", {"text.py": TEXT}, seed)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted((m.start, m.new) for m in mutants("text.py", TEXT))


def test_every_suite_has_test_files():
    assert all(files_of(suite) for suite in SUITES)


def test_a_mutant_is_judged(monkeypatch):
    monkeypatch.setitem(SUITES, "moments", ("moments/test_pool.py",))
    results = run("moments", 60.0, seed=1, number=1)
    assert len(results) == 1
    assert all(result["file"].startswith("moments/") for result in results)
    assert counts(results)[0] == 1


PATCHED = """
def outer(x):
    def inner(y):
        return x - y

    return inner


class Kind:
    size = 3

    def method(self, x=1):
        return x * self.size
"""


def test_code_is_replaced_in_functions_that_exist(tmp_path):
    path = str(tmp_path / "patched.py")
    module: dict = {"__name__": "patched"}
    exec(compile(PATCHED, path, "exec"), module)
    inner, method = module["outer"](5), module["Kind"]().method
    after = PATCHED.replace("x - y", "x + y").replace("x * self", "x + self")
    changed = patching.replacements(path, PATCHED, after)
    functions = patching.functions_in(str(tmp_path))[path]
    assert patching.apply(functions, changed) == 3  # inner, and outer, which makes new ones
    assert (inner(2), module["outer"](1)(1), method(4)) == (7, 2, 7)


def test_a_name_of_the_same_length_is_replaced(tmp_path):
    text = "def f(x):\n    return x.clamp_min(0)\n"
    changed = patching.replacements("f.py", text, text.replace("clamp_min", "clamp_max"))
    assert [code.co_names for code in changed.values()] == [("clamp_max",)]


def test_what_an_import_executes_is_not_replaced():
    for old, new in (("size = 3", "size = 4"), ("x=1", "x=2")):
        assert patching.replacements("patched.py", PATCHED, PATCHED.replace(old, new)) is None

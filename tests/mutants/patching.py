"""Put mutated code into functions that are already imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

CACHE = type(lru_cache(lambda: None))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def _key(code: CodeType) -> Any:
    return code.co_qualname, code.co_code, tuple(code.co_positions())


def replacements(path: str, before: str, after: str) -> dict[Any, CodeType] | None:
    """Return the changed code of functions by a key of the original; None outside of functions.

    Args:
        path: file of the module.
        before: source of the module.
        after: source with one expression or statement replaced.
    """
    old, new = (compile(text, path, "exec") for text in (before, after))
    pairs = list(zip(_codes(old), _codes(new), strict=False))
    outside = _without_functions(old) != _without_functions(new)
    same = all((a.co_qualname, a.co_freevars) == (b.co_qualname, b.co_freevars) for a, b in pairs)
    if outside or not same or len(list(_codes(old))) != len(list(_codes(new))):
        return None
    return {_key(a): b for a, b in pairs if a != b}


def _without_functions(code: CodeType) -> Any:
    """What a module, and the bodies of its classes, execute when imported."""
    values = [c for c in code.co_consts if not isinstance(c, CodeType)]
    classes = [c for c in code.co_consts if isinstance(c, CodeType) and _is_class(c)]
    return repr(values), code.co_names, code.co_code, [_without_functions(c) for c in classes]


def _is_class(code: CodeType) -> bool:
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def functions_in(folder: str) -> dict[str, list[FunctionType]]:
    """Return all functions that exist now, by the file in a folder that defines them."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(folder):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def clear_caches(folder: str) -> None:
    """Forget what cached functions defined in a folder have returned."""
    for each in gc.get_objects():
        if type(each) is CACHE:
            code = getattr(getattr(each, "__wrapped__", None), "__code__", None)
            if code is not None and code.co_filename.startswith(folder):
                each.cache_clear()


def apply(functions: list[FunctionType], changed: dict[Any, CodeType]) -> int:
    """Replace the code of all functions made of changed code; return their number."""
    found = [(each, changed.get(_key(each.__code__))) for each in functions]
    for each, code in found:
        if code is not None:
            each.__code__ = code
    return sum(code is not None for _, code in found)

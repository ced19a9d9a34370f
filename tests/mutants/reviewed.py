"""Surviving mutants that were looked at, with the reason why no test notices them.

A mutant is identified by its file and by its changed line, before and after, so that the entry
disappears from the table when the line changes.
"""

# fmt: off

from __future__ import annotations

REVIEWED: dict[tuple[str, str, str], str] = {
}

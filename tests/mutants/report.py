"""The table of mutants: scores by subpackage, and survivors with their reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.mutants.reviewed import REVIEWED

TABLE = Path(__file__).parent / "README.md"
EQUIVALENT = "equivalent"
"""Reasons that begin so are not counted against the tests."""


def reason(result: dict[str, Any]) -> str:
    """Return why a mutant survived, if that was found out."""
    return REVIEWED.get((result["file"], result["before"], result["after"]), "not reviewed")


def counts(results: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Return the number of mutants, of noticed ones and of equivalent ones."""
    noticed = sum(bool(r["noticed_by"]) for r in results)
    survived = [r for r in results if not r["noticed_by"]]
    return len(results), noticed, sum(reason(r).startswith(EQUIVALENT) for r in survived)


def scores(kept: dict[str, Any]) -> str:
    """Return the table of scores by subpackage, as Markdown."""
    lines = [
        "| subpackage | mutants | noticed | equivalent | score | seed | seconds | commit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, part in kept.items():
        number, noticed, same = counts(part["mutants"])
        score = noticed / max(number - same, 1)
        lines.append(
            f"| {name} | {number} | {noticed} | {same} | {score:.0%} | {part['seed']} "
            f"| {part['seconds']:g} | {part['commit'][:10]} |"
        )
    return "\n".join(lines) + "\n"


def write(kept: dict[str, Any]) -> None:
    """Write the table of scores and the list of survivors."""
    lines = [
        "# Sampled mutants",
        "",
        "The score is the share of mutants that a test notices, among those that are not",
        "equivalent to the original. The commands are in `results.json`:",
        "",
        *(f"- `{part['command']}`" for part in kept.values()),
        "",
        scores(kept),
        "The sampler is our own: `mutmut` and `cosmic-ray` start a Python process for each mutant,",
        "which imports torch for several seconds, and run all tests rather than those that execute",
        "the changed line. `moments` alone has more than 1,500 mutants.",
        "",
        "## Survivors",
        "",
        "| file | line | before | after | reason |",
        "|---|---|---|---|---|",
    ]
    for part in kept.values():
        for result in part["mutants"]:
            if not result["noticed_by"]:
                before, after = (f"`` {result[k].replace('|', chr(92) + '|')} ``"
                                 for k in ("before", "after"))  # fmt: skip
                lines.append(
                    f"| {result['file']} | {result['line']} | {before} | {after} "
                    f"| {reason(result)} |"
                )
    TABLE.write_text("\n".join(lines) + "\n")

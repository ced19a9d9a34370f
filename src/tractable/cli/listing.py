"""``tractable list``."""

from __future__ import annotations

from tractable.cli import output
from tractable.experiments import registry


def show(json: bool) -> None:
    """All experiments that are installed."""
    entries = {name: registry.EXPERIMENTS[name] for name in registry.names()}
    if json:
        output.as_json(
            [{"name": n, "title": e.title, "source": e.source} for n, e in entries.items()]
        )
        return
    rows = [[name, entry.title, entry.source] for name, entry in entries.items()]
    output.show_table(["name", "shows", "of"], rows)

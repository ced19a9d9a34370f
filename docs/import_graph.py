"""The imports between the subpackages of ``tractable``, read from the source and drawn."""

from __future__ import annotations

import ast
from pathlib import Path

from matplotlib.axes import Axes

Graph = dict[str, set[str]]
"""For each subpackage or module, those that it imports."""


def import_graph(package: Path) -> Graph:
    """Return which subpackages import which; imports for type checkers only are left out.

    Args:
        package: folder of the package.
    """
    members = {
        path.stem
        for path in package.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__"))
        or (path / "__init__.py").is_file()
    }
    graph: Graph = {member: set() for member in members}
    for path in package.rglob("*.py"):
        member = path.relative_to(package).parts[0].removesuffix(".py")
        if member in graph:
            graph[member] |= (_imported(path.read_text(), package.name) & members) - {member}
    return graph


def _imported(text: str, package: str) -> set[str]:
    """Return the members of the package that a module imports."""
    found, waiting = set(), [ast.parse(text)]
    while waiting:
        node: ast.AST = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
        waiting.extend(ast.iter_child_nodes(node))
    return found


def levels(graph: Graph) -> dict[str, int]:
    """Return the level of each member: one more than the highest of what it imports."""
    found: dict[str, int] = {}
    while len(found) < len(graph):
        ready = [m for m in graph if m not in found and graph[m] <= found.keys()]
        if not ready:
            raise ValueError(
                f"the imports have a cycle among {sorted(graph.keys() - found.keys())}"
            )
        found |= {m: 1 + max((found[n] for n in graph[m]), default=-1) for m in ready}
    return found


def direct(graph: Graph) -> Graph:
    """Return the imports that do not follow from others."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return found

    below = {member: reached(member) for member in graph}
    return {
        member: {n for n in names if not any(n in below[other] for other in names - {n})}
        for member, names in graph.items()
    }


def draw(package: Path, axes: Axes) -> None:
    """Draw the subpackages by level, with a line for each import that does not follow from others.

    Args:
        package: folder of the package.
        axes: axes to draw on.
    """
    graph = import_graph(package)
    level, lines = levels(graph), direct(graph)
    place: dict[str, tuple[float, float]] = {}
    for height in range(max(level.values()) + 1):
        row = sorted(m for m in graph if level[m] == height)
        if place:  # each near what it imports, so that lines are short
            row.sort(key=lambda m: sum(place[n][0] for n in lines[m]) / max(len(lines[m]), 1))
        for k, member in enumerate(row):
            shift = 0.3 * (height % 2)  # so that a line passes beside the boxes between its ends
            place[member] = ((k + 0.35 + shift) / len(row), float(height))
    for member, names in lines.items():
        for name in names:
            (x, y), (to_x, to_y) = place[member], place[name]
            axes.plot([x, to_x], [y - 0.22, to_y + 0.22], color="0.7", linewidth=0.8, zorder=1)
    for member, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.3"}
        axes.text(x, y, member, ha="center", va="center", fontsize=9, bbox=box, zorder=2)
    axes.set(xlim=(0, 1), ylim=(-0.6, max(level.values()) + 0.6))
    axes.set_axis_off()

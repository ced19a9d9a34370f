"""The picture of the architecture is drawn from the imports."""

from pathlib import Path

import pytest

import tractable as tr
from docs.import_graph import direct, import_graph, levels

HOME = Path(tr.__file__).parent


def test_imports_of_a_small_package(tmp_path):
    package = tmp_path / "small"
    (package / "top").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "top" / "__init__.py").write_text("from small import middle\n")
    (package / "top" / "part.py").write_text("from small.bottom import f\nimport small.middle\n")
    (package / "middle.py").write_text(
        "from typing import TYPE_CHECKING\nfrom small import bottom\n"
        "if TYPE_CHECKING:\n    from small import top\n"
    )
    (package / "bottom.py").write_text("import os\n")
    graph = import_graph(package)
    assert graph == {"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set()}
    assert levels(graph) == {"bottom": 0, "middle": 1, "top": 2}
    assert direct(graph)["top"] == {"middle"}  # the other one follows
    graph["bottom"] = {"top"}
    with pytest.raises(ValueError, match="cycle"):
        levels(graph)


def test_subpackages_import_from_lower_levels_only():
    graph = import_graph(HOME)
    level = levels(graph)
    assert {"learners", "rules", "moments", "cli"} <= graph.keys()
    assert all(level[name] < level[member] for member in graph for name in graph[member])

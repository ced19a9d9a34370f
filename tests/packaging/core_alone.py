"""A script that runs the core with only torch, numpy and safetensors installed.

``make wheel`` runs it in an environment that holds nothing else; ``test_core_alone`` runs it in the
development environment with ``--block``, which hides every other package.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

CORE = ("torch", "numpy", "safetensors")


def plain(name: str) -> str:
    """The name of a distribution as all tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(names: Sequence[str]) -> set[str]:
    """Return these packages and all their dependencies, in lower case with hyphens."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = plain(waiting.pop())
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # a requirement for other systems
        found.add(name)
        always = [r for r in requires if "extra ==" not in r]
        waiting += [re.split(r"[\s;<>=!~\[(]", r, maxsplit=1)[0] for r in always]
    return found


class Hidden:
    """A finder of modules that finds none of a package that the core does not need."""

    def __init__(self, finder: Any, owners: Mapping[str, list[str]], core: set[str]) -> None:
        self.finder, self.owners, self.core = finder, owners, core

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the original finder."""
        return getattr(self.finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """None for the modules of other distributions."""
        owners = {plain(owner) for owner in self.owners.get(name.partition(".")[0], ())}
        if owners and not owners & (self.core | {"tractable"}):
            return None
        return self.finder.find_spec(name, path, target)


def hide_the_rest() -> None:
    """From here on, only the core's packages can be imported."""
    owners, core = importlib.metadata.packages_distributions(), needed(CORE)
    sys.meta_path[:] = [Hidden(finder, owners, core) for finder in sys.meta_path]


def use_the_core() -> None:
    """Import, fit, predict, save and load, and use features that need an extra."""
    import torch
    from torch import nn

    import tractable as tr

    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
    for learner in (tr.TAGI, tr.BayesByBackprop, tr.Backprop, tr.Ensemble):
        model = learner(net, tr.likelihoods.Normal()).fit(x, x, epochs=3)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.tr")
            again = tr.Learner.load(Path(folder) / "model.tr")
        if not torch.equal(again.predict(x).mean, model.predict(x).mean):
            raise AssertionError(f"{learner.__name__} did not come back from its file")
    for name in tr.__all__:
        getattr(tr, name)


def what_is_missing_is_named() -> None:
    """Check that the command, plots and agents name the extra that they need."""
    from tractable.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        main()
    if "pip install 'tractable[cli]'" not in said.getvalue():
        raise AssertionError(f"the command says {said.getvalue()!r}")
    import tractable as tr

    try:
        tr.plots.learning_curves([{"epoch": 1.0, "validation_nll": 0.5}])
    except ImportError as error:
        if "tractable[plots]" not in str(error):
            raise AssertionError(f"plots say {error}") from error
    else:
        raise AssertionError("plots were drawn without matplotlib")


def main(block: bool) -> None:
    """Run all checks, and inspect the imported modules."""
    owners, core = importlib.metadata.packages_distributions(), needed(CORE)
    before = set(sys.modules)
    if block:
        hide_the_rest()
    use_the_core()
    what_is_missing_is_named()
    loaded = {
        plain(owner)
        for name in set(sys.modules) - before
        if getattr(sys.modules[name], "__file__", None)
        for owner in owners.get(name.partition(".")[0], ())
    }
    if strange := loaded - core - {"tractable"}:
        raise AssertionError(f"the core imports {', '.join(sorted(strange))}")
    sys.stdout.write(f"the core works with {', '.join(CORE)} alone\n")


if __name__ == "__main__":
    main("--block" in sys.argv[1:])

"""``tractable info``."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from tractable import versions
from tractable.cli import network_spec, output
from tractable.cli.errors import UsageError
from tractable.data import download
from tractable.learners import coverage
from tractable.rules.activation import MODES, Mode

EXTRAS = ("scikit-learn", "matplotlib", "pooch", "optuna", "gymnasium", "stable-baselines3")


def environment_info() -> dict[str, object]:
    """Return versions, devices and data sets."""
    extras = {}
    for name in EXTRAS:
        try:
            extras[name] = version(name)
        except PackageNotFoundError:
            extras[name] = "not installed"
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    folder = os.environ.get(download.FOLDER)
    return {
        **versions.get_versions(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "gpu": gpu,
        **extras,
        "data folder": folder or f"none ({download.FOLDER} is not set)",
        "data found": _data() or ["none"],
    }


def _data() -> list[str]:
    """Return the names of the folders in the data folder."""
    folder = os.environ.get(download.FOLDER)
    if not folder:
        return []
    root = Path(folder).expanduser()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def show(json: bool) -> None:
    """Print versions, devices and data sets."""
    found = environment_info()
    if json:
        output.print_json(found)
        return
    rows = [[k, ", ".join(v) if isinstance(v, list) else str(v)] for k, v in found.items()]
    output.print_table(["", ""], rows)


def show_network(name: str, shapes: list[str], moments: str, json: bool) -> None:
    """Print the functions that a network calls, and whether they have moment rules."""
    modes: dict[str, Mode] = {mode: mode for mode in MODES}
    if moments not in modes:
        raise UsageError(f"--moments must be one of {', '.join(MODES)}, got {moments!r}")
    found = coverage(
        network_spec.load_network(name), network_spec.random_batch(shapes), moments=modes[moments]
    )
    if json:
        functions = [{"name": f.name, "calls": f.calls, "kind": f.kind} for f in found.functions]
        output.print_json({
            "complete": found.complete,
            "functions": functions,
            "missing": list(found.missing),
            "unreached": list(found.unreached),
            "warnings": list(found.warnings),
        })  # fmt: skip
        return
    rows = [[f.name, str(f.calls), f.kind] for f in found.functions]
    output.print_table(["function", "calls", "moments"], rows)
    for word in found.words():
        output.print_line(f"- {word}")

"""Provenance of results."""

import subprocess

from tractable.report import provenance


def git(folder, *words: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_the_checkout_the_package_belongs_to(tmp_path, monkeypatch):
    """An environment inside somebody's repository does not make the package a part of it."""
    own = tmp_path / "provenance.py"
    own.write_text("")
    monkeypatch.setattr(provenance, "__file__", str(own))
    assert provenance.commit() is None  # no repository at all
    git(tmp_path, "init", "-q")
    (tmp_path / "theirs").write_text("")
    git(tmp_path, "add", "theirs")
    git(tmp_path, "commit", "-qm", "theirs")
    assert provenance.commit() is None
    git(tmp_path, "add", "provenance.py")
    git(tmp_path, "commit", "-qm", "ours")
    assert provenance.commit() == git(tmp_path, "rev-parse", "--short=12", "HEAD")
    own.write_text("# changed")
    assert provenance.commit().endswith("-dirty")


def test_versions_and_memory():
    assert {"tractable", "torch", "numpy", "python"} == set(provenance.versions())
    assert provenance.peak_memory_mib() > 10


def test_without_a_shell_the_command_is_a_module_and_its_arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/other"])
    assert provenance.command_line("a.b", ["--out", "/x/y z"]) == "python -m a.b --out 'y z'"

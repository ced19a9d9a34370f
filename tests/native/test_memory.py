"""The kernel accesses only the memory of its arguments, whatever the caller does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tractable
from tests.native.races import PATHS, Problem, kernel
from tractable import native

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("race", "said"),
    [
        ("labels", "written during"),
        ("order", "written during"),
        ("calls", "as alone"),
        ("snapshot", "unmoved"),
    ],
)
def test_concurrent_writes_do_not_cause_out_of_bounds_reads(race: str, said: str) -> None:
    """Run in a separate process, where a segmentation fault is a return code."""
    places = [str(Path(tractable.__file__).parents[1]), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.native.races", race],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.parametrize("name", ["labels", "order"])
def test_indices_are_copied_at_the_start_of_an_epoch(name: str) -> None:
    """Like the race, but at a known time: ``progress`` writes."""
    learner, rows, calls = kernel(tree=True), 400_000, []
    expected, problem = Problem(rows), Problem(rows)

    def spoil(_: int) -> None:
        calls.append(getattr(problem, name).fill(10**13))

    expected.learn(learner)
    assert problem.learn(learner, progress=spoil) == rows
    assert calls
    assert problem.state() == expected.state()


def test_no_array_can_be_resized_during_a_call() -> None:
    learner, problem, refused = kernel(tree=True), Problem(400_000), []
    x = problem.x
    tensor = torch.from_numpy(problem.labels.copy())
    problem.labels = tensor.detach().numpy()
    del problem.x

    def resize(_: int) -> None:
        if refused:
            return
        try:
            x.resize((1, 3))
        except ValueError as error:
            refused.append(str(error))
        try:
            tensor.resize_(10**7)
        except RuntimeError as error:
            refused.append(str(error))

    learner.learn(
        problem.loc, problem.variance, [1.0] * 4, *problem.noise, x, None, None, None,
        problem.labels, problem.order, 1, 0.0, resize,
    )  # fmt: skip
    assert len(refused) == 2
    assert "resize" in refused[0]
    assert "resizable" in refused[1]


def draw(rows: int, samples: int = 1, normals: int = 0) -> Any:
    problem = Problem(1)
    return kernel(tree=True).draw(
        problem.loc,
        problem.variance,
        np.zeros((rows, 3), np.float32),
        samples,
        np.zeros(normals, np.float32),
    )


@pytest.mark.parametrize("rows", [46_341, 50_000, 65_535, 65_536, 100_000])
def test_draws_of_too_many_rows_are_refused(rows: int) -> None:
    with pytest.raises(ValueError, match=f"at most 46340 rows can be drawn together, not {rows}"):
        draw(rows)


def test_samples_of_valid_sizes_pass_the_size_check() -> None:
    with pytest.raises(ValueError, match="a normal per unit, row and draw"):
        draw(46_340)
    with pytest.raises(ValueError, match="too many draws"):
        draw(46_340, samples=2**31 - 1)
    assert draw(0).shape == (1, 0, 2)
    assert draw(300, samples=2, normals=300 * 2 * 22).shape == (2, 300, 2)


def learner(*layers: tuple[int, int]) -> Any:
    compiled = native.kernel()
    assert compiled is not None
    return compiled.Learner(
        before=[],
        layers=[(into, out, True, []) for into, out in layers],
        likelihood="normal",
        tree_noise=1.0,
        paths=None,
        rule="damped",
    )


@pytest.mark.parametrize("sizes", [(2**28 + 1, 1), (1, 2**31 - 1)])
def test_layers_whose_sizes_could_overflow_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="too wide"):
        learner(sizes)


def test_a_network_whose_size_could_overflow_is_refused() -> None:
    wide = 2**28
    with pytest.raises(ValueError, match="too large"):
        learner((1, wide), *[(wide, wide)] * 256, (wide, 1))


@pytest.mark.parametrize("name", ["loc", "variance", "x", "labels", "order"])
def test_misaligned_arrays_are_refused(name: str) -> None:
    problem = Problem(4)
    before = problem.state()
    array = getattr(problem, name)
    shifted = np.frombuffer(bytearray(array.nbytes + 1), dtype=np.uint8)[1:].view(array.dtype)
    setattr(problem, name, shifted.reshape(array.shape))
    assert not getattr(problem, name).flags.aligned
    with pytest.raises(ValueError, match="not aligned"):
        problem.learn(kernel(tree=True))
    setattr(problem, name, array)
    assert problem.state() == before


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_results_of_a_call_do_not_affect_the_next(tree: bool, batch_size: int) -> None:
    """A prior variance of zero gives infinities, also where there are no weights."""
    used = kernel(tree)
    one, other = Problem(50, tree), Problem(50, tree)
    spoilt = Problem(50, tree)
    spoilt.priors = [0.0] * 4
    for _ in range(2):
        spoilt.learn(used, batch_size)
    assert one.learn(used, batch_size) == other.learn(kernel(tree), batch_size)
    assert one.state() == other.state()


def test_paths_are_copied() -> None:
    one, other = Problem(50), Problem(50)
    paths = PATHS.copy()
    compiled = native.kernel()
    assert compiled is not None
    shared = compiled.Learner(
        before=[],
        layers=[(3, 20, True, [("relu", 0.0)]), (20, 2, True, [])],
        likelihood="probit_tree",
        tree_noise=1.0,
        paths=paths,
        rule="damped",
    )
    paths.fill(0)
    one.learn(shared)
    other.learn(kernel(tree=True))
    assert one.state() == other.state()

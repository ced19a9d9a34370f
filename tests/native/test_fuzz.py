"""A short run of the fuzz tests of ``tests/soak``, and tests of their detection of faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.soak import fuzz_kernel
from tests.soak.hostile import HARMLESS, Attack
from tests.soak.kernel_calls import Call, random_call, random_network

REFUSED = Attack("something wrong", "refused")


def test_a_few_fuzz_cases_pass(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz_kernel.main(["--seed", "5", "--cases", "150", "--seconds", "120"])
    said = capsys.readouterr().out
    assert said.startswith("150 cases: ")
    for what in ("answered", "learnt", "refused", "stopped", "not made"):
        assert what in said


def call(name: str) -> Call:
    rng = np.random.default_rng(1)
    while True:
        made = random_call(rng, random_network(rng))
        if made.name == name and len(made.arguments["x"]):
            return made


@pytest.mark.parametrize(
    ("name", "outcome", "attack", "said"),
    [
        ("predict", ValueError("no"), HARMLESS, "ordinary call was refused"),
        ("predict", (np.zeros(1),), REFUSED, "was not refused"),
        ("predict", (np.array([np.nan]),), HARMLESS, "not finite"),
        ("learn", 0, HARMLESS, "only 0 of"),
        ("learn", -1, HARMLESS, "-1 of"),
    ],
)
def test_wrong_outcomes_are_detected(name: str, outcome: Any, attack: Attack, said: str) -> None:
    made = call(name)
    before = fuzz_kernel.bits(made.arguments)
    with pytest.raises(fuzz_kernel.Wrong, match=said):
        fuzz_kernel.judge(made, before, outcome, attack)


@pytest.mark.parametrize(
    ("name", "outcome", "said"),
    [
        ("predict", ValueError("no"), "something changed"),
        ("predict", (np.zeros(1),), "changed its arguments"),
        ("learn", ValueError("no"), "something changed"),
        ("learn", 0, "no batch was learnt"),
    ],
)
def test_changes_of_arguments_are_detected(name: str, outcome: Any, said: str) -> None:
    made = call(name)
    before = fuzz_kernel.bits(made.arguments)
    made.arguments["loc"][-1] += 1
    with pytest.raises(fuzz_kernel.Wrong, match=said):
        fuzz_kernel.judge(made, before, outcome, Attack("something", "any"))


def test_invalid_parameters_are_detected() -> None:
    for bad, said in ((np.nan, "not finite"), (-1.0, "negative")):
        made = call("learn")
        before = fuzz_kernel.bits(made.arguments)
        made.arguments["variance"][0] = bad
        with pytest.raises(fuzz_kernel.Wrong, match=said):
            fuzz_kernel.judge(made, before, made.batches, HARMLESS)

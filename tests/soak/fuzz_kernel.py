"""Random networks and calls against the compiled kernel, a third of them hostile.

``python -m tests.soak.fuzz_kernel --seconds 60 --seed 1``, best with the instrumented build of
``make sanitize``, of which ``TRACTABLE_EXPECT`` makes sure.  Every call must return finite numbers
or raise an exception of Python; one that is refused must leave every array as it was, bit for
bit.  Where the numbers themselves are impossible, it must only survive.  Every case follows from
the seed and its number: where the process dies, ``--first`` begins again at the number last shown.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, islice, takewhile
from typing import Any

import numpy as np

from tests.soak import hostile
from tests.soak.kernel_calls import Arguments, Call, Outcome, random_call, random_network
from tractable import native

SHOWN_EVERY = 1_000


class Wrong(AssertionError):
    """What the kernel must not do."""


def require(condition: bool, what: str) -> None:
    """Raise ``Wrong`` unless the condition holds."""
    if not condition:
        raise Wrong(what)


def bits(arguments: Arguments) -> dict[str, bytes]:
    """All arrays among the arguments."""
    return {
        name: value.tobytes() for name, value in arguments.items() if isinstance(value, np.ndarray)
    }


def finite(value: Any) -> bool:
    """Whether all numbers of an answer are."""
    if isinstance(value, tuple):
        return all(finite(part) for part in value)
    return bool(np.isfinite(value).all())


def judge(call: Call, before: dict[str, bytes], outcome: Outcome, attack: hostile.Attack) -> str:
    """Return the effect of a call; raise ``Wrong`` if it is not allowed."""
    after = bits(call.arguments)
    if isinstance(outcome, Exception):
        require(attack.effect != "harmless", f"an ordinary call was refused: {outcome!r}")
        require(after == before, f"refused, and yet something changed: {outcome!r}")
        return "refused"
    require(attack.effect != "refused", f"{attack.name} was not refused")
    if call.name != "learn":
        require(after == before, "a question changed its arguments")
        require(attack.effect == "any" or finite(outcome), "an answer is not finite")
        return "answered"
    unlearnt = set(after) - {*hostile.LEARNT, "surprise", "surprises"}
    require(all(after[name] == before[name] for name in unlearnt), "the data were changed")
    require(outcome > 0 or after == before, "no batch was learnt, and yet something changed")
    require(0 <= outcome <= call.batches, f"{outcome} of {call.batches} batches")
    if attack.effect == "harmless":
        require(outcome == call.batches, f"only {outcome} of {call.batches} batches were learnt")
    if attack.keeps_state_sound:
        state = [call.arguments[name] for name in ("loc", "variance")]
        require(finite(tuple(state)), "the parameters are not finite")
        require(bool((state[1] >= 0).all()), "a variance is negative")
    return "learnt" if outcome == call.batches else "stopped"


def run_case(seed: int, number: int) -> Counter[str]:
    """One network, some calls."""
    rng = np.random.default_rng([seed, number])
    tally: Counter[str] = Counter()
    if rng.random() < 0.1:
        tally[hostile.construct(rng)] += 1
    network = random_network(rng)
    for _ in range(int(rng.integers(1, 6))):
        call = random_call(rng, network)
        attack = hostile.HARMLESS
        if rng.random() < 1 / 3:
            attack = hostile.attack(rng, call)
        before = bits(call.arguments)
        with attack.during(call.arguments):
            outcome = call.run()
        try:
            tally[judge(call, before, outcome, attack)] += 1
        except Wrong as error:
            error.add_note(f"seed {seed}, case {number}: {call.name}, {attack.name}, {network}")
            raise
    return tally


def cases(first: int, ends: float, clock: Callable[[], float] = time.monotonic) -> Any:
    """Numbers from the first on until the time is over."""
    return takewhile(lambda _: clock() < ends, count(first))


def main(arguments: list[str] | None = None) -> None:
    """Run cases until the time is over or one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, help="how many at most")
    options = parser.parse_args(arguments)
    expected = os.environ.get("TRACTABLE_EXPECT", "")
    assert expected in str(native.__file__), f"testing {native.__file__}, not {expected}"
    tally: Counter[str] = Counter()
    numbers = islice(cases(options.first, time.monotonic() + options.seconds), options.cases)
    done = 0
    for number in numbers:
        if number % SHOWN_EVERY == 0:
            sys.stderr.write(f"from case {number} of seed {options.seed}\n")
        with np.errstate(all="ignore"):
            tally += run_case(options.seed, number)
        done += 1
    said = ", ".join(f"{times} {what}" for what, times in sorted(tally.items()))
    sys.stdout.write(f"{done} cases: {said}\n")


if __name__ == "__main__":
    faulthandler.enable()
    main()

"""Files with a wrong bit, and files made to harm."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from itertools import islice, takewhile
from pathlib import Path

from tests.persistence import crafted, flips
from tests.persistence.kinds import KINDS
from tests.persistence.measure import measured
from tests.persistence.test_crafted import evil_module, harmless, refused

FLIPS = 10_000
AT_ONCE = 200


def run_flips(seconds: float, seed: int) -> Counter[str]:
    """At most ten thousand flips in files of every kind."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        found = islice(flips.outcomes(KINDS, Path(folder), seed), FLIPS)
        return flips.tally(takewhile(lambda _: time.monotonic() < end, found))


def run_crafted(seconds: float, seed: int) -> Counter[str]:
    """Random files of all that can be crafted, until there are no more or the time is over."""
    cases = [c for k in KINDS for c in (*crafted.tensor_cases(k), *crafted.header_cases(k))]
    random.Random(seed).shuffle(cases)
    tally: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while cases and (time.monotonic() < end or not tally):
        some, cases = cases[:AT_ONCE], cases[AT_ONCE:]
        with tempfile.TemporaryDirectory() as folder:
            modules = evil_module(Path(folder) / "modules")
            results = measured(crafted.written(some, Path(folder)), str(modules))
            assert not (modules / "imported").exists()
        for case, result in zip(some, results, strict=True):
            assert refused(result) or harmless(result), (case.kind, case.name, result)
            tally["refused" if refused(result) else "harmless"] += 1
    return tally

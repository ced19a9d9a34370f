"""Loading files in which one bit is flipped."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from tests.persistence.kinds import KINDS, write_good
from tractable.errors import InvalidModelFile


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def outcomes(names: Iterable[str], folder: Path, seed: int) -> Iterator[str]:
    """Flip one random bit at a time; return whether the file is refused, equal or invalid."""
    draw = random.Random(seed)
    good = {}
    for name in names:
        path = write_good(name, folder / f"{name}.tr")
        good[name] = path.read_bytes(), np.asarray(KINDS[name].numbers(KINDS[name].load(path)))
    path = folder / "flipped.tr"
    while True:
        for name, (content, expected) in good.items():
            bit = draw.randrange(8 * len(content))
            path.write_bytes(flipped(content, bit))
            try:
                found = np.asarray(KINDS[name].numbers(KINDS[name].load(path)))
            except InvalidModelFile:
                yield "refused"
            except Exception as error:
                yield f"{name}, bit {bit}: {error!r}"
            else:
                same = np.array_equal(found, expected)
                yield "the same" if same else f"{name}, bit {bit}: other numbers"


def tally(found: Iterable[str]) -> Counter[str]:
    """Return the counts of outcomes; raise at the first invalid one."""
    counted: Counter[str] = Counter()
    for outcome in found:
        assert outcome in ("refused", "the same"), outcome
        counted[outcome] += 1
    return counted

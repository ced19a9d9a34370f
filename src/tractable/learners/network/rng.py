"""Where the random functions that a network calls draw from.

Dropout, stochastic depth or ``torch.randn_like`` in a module's forward read torch's global
generator.  A learner lends it a seed of its own generator for the pass and puts it back, so that
the same seed gives the same result, and nothing outside is disturbed.

Lending costs some sixteen microseconds and a lock, so it is done only for networks that draw.  The
first pass of each mode is lent a seed, to find out whether the network draws; after that every pass
is checked for a change of the global generator's state, which costs four.

Approximate: a network that begins to draw later (a dropout rate that rises from zero, say) draws
from the global generator in the first pass that does, and from the learner's in all after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

PREDICTION_SEED = 7_919
"""Predictions draw from a stream of their own, this far from the learner's seed."""


_GLOBAL = RLock()  # one thread at a time has torch's generator, and puts it back


class ForwardRng:
    """Seeds the global generator from a learner's generator, for networks that draw random numbers.

    Args:
        device: device that the network computes on.
        drops: whether it is known to draw when training.
    """

    def __init__(self, device: torch.device, drops: bool = False) -> None:
        self.devices = [device] if device.type == "cuda" else []
        self.draws = {True: drops, False: False}
        self.suspected = {True: True, False: True}
        """Whether the next pass of a mode is lent a seed, to see whether the network draws."""

    @contextmanager
    def drawing_from(
        self, source: torch.Generator | int, *, train: bool, always: bool = False
    ) -> Iterator[None]:
        """Run a forward pass with random numbers from ``source``, a generator or a seed."""
        if not (always or self.draws[train] or self.suspected[train]):
            start = self._states()
            yield
            # Only a suspicion: without the lock, another thread may have drawn.
            self.suspected[train] = self._changed(start)
            return
        # The generator goes on only for a pass in training that drew: predictions are the same at
        # every call, and a network that draws nothing leaves it as it was.
        generator = _generator(source)
        with self.seeded(_copied(generator)):
            start = self._states()
            yield
            drew = self._changed(start)
        self.suspected[train] = False
        self.draws[train] |= drew
        if train and self.draws[True]:
            _seed(generator)

    @contextmanager
    def seeded(self, generator: torch.Generator) -> Iterator[None]:
        """Seed torch's global generator from ``generator`` inside the block."""
        seed = _seed(generator)
        with _GLOBAL, torch.random.fork_rng(self.devices):
            # Not torch.manual_seed, which asks every kind of device for a stack trace (1.5 ms).
            torch.default_generator.manual_seed(seed)
            for device in self.devices:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            yield

    def _changed(self, before: list[torch.Tensor]) -> bool:
        """Return whether a global generator was used."""
        return any(not torch.equal(a, b) for a, b in zip(before, self._states(), strict=True))

    def _states(self) -> list[torch.Tensor]:
        found = [torch.get_rng_state()]
        return found + [torch.cuda.get_rng_state(device) for device in self.devices]


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator).item())


def _copied(generator: torch.Generator) -> torch.Generator:
    copied = torch.Generator()
    copied.set_state(generator.get_state())
    return copied


def _generator(source: torch.Generator | int) -> torch.Generator:
    if isinstance(source, int):
        return torch.Generator().manual_seed(source)
    return source

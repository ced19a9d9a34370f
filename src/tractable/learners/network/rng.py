"""Random numbers of forward passes, seeded from a learner's generator.

Dropout, stochastic depth or ``torch.randn_like`` in a module's forward use torch's global
generator.  A learner seeds it from its own generator for the forward pass and restores its state
afterwards, so that the same seed gives the same result, and other code is unaffected.

Seeding takes about sixteen microseconds and a lock, so it is limited to networks that use random
numbers.  The first pass of each mode is seeded, to find out whether the network uses any.  Every
later pass is checked for a change of the global generator's state, which takes four microseconds.

Approximate: a network that starts to use random numbers later, such as one whose dropout rate rises
from zero, takes those of its first such pass from the global generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

PREDICTION_SEED = 7_919
"""Predictions use a generator with the learner's seed plus this number."""


_GLOBAL = RLock()  # one thread at a time may seed and restore torch's global generator


class ForwardRng:
    """Seeds the global generator from a learner's generator, for networks that use random numbers.

    Args:
        device: device of the network.
        drops: whether the network is known to use random numbers in training.
    """

    def __init__(self, device: torch.device, drops: bool = False) -> None:
        self.devices = [device] if device.type == "cuda" else []
        self.is_random = {True: drops, False: False}
        """Whether the network is known to use random numbers, by ``train``."""
        self.suspected = {True: True, False: True}
        """Whether to seed the next pass, to find out if it uses random numbers, by ``train``."""

    @contextmanager
    def drawing_from(
        self, source: torch.Generator | int, *, train: bool, always: bool = False
    ) -> Iterator[None]:
        """Run a forward pass with random numbers from ``source``, a generator or a seed."""
        if not (always or self.is_random[train] or self.suspected[train]):
            start = self._states()
            yield
            # This is not certain: without the lock, another thread may have used the generator.
            self.suspected[train] = self._changed(start)
            return
        # The generator advances only for a training pass that used random numbers, so that
        # predictions are the same at every call.
        generator = _generator(source)
        with self.seeded(_copied(generator)):
            start = self._states()
            yield
            was_used = self._changed(start)
        self.suspected[train] = False
        self.is_random[train] |= was_used
        if train and self.is_random[True]:
            _seed(generator)

    @contextmanager
    def seeded(self, generator: torch.Generator) -> Iterator[None]:
        """Seed torch's global generator from ``generator`` inside the block."""
        seed = _seed(generator)
        with _GLOBAL, torch.random.fork_rng(self.devices):
            # torch.manual_seed takes 1.5 ms, because it asks every device for a stack trace.
            torch.default_generator.manual_seed(seed)
            for device in self.devices:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            yield

    def _changed(self, before: list[torch.Tensor]) -> bool:
        """Return whether a global generator was used."""
        return any(not torch.equal(a, b) for a, b in zip(before, self._states(), strict=True))

    def _states(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        return states + [torch.cuda.get_rng_state(device) for device in self.devices]


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

"""Running statistics of batch normalization, recomputed at the current weights after an epoch.

During training, running statistics are averages over about the last ten batches, each with the
weights of its time.  With a learning rate that goes to zero, the weights hardly change at the end,
and these averages are accurate.  The weights of TAGI continue to change, and an error of 0.05
standard deviations in the mean of each layer is enough to make predictions useless.  After an
epoch the statistics are therefore recomputed, from large batches of the most recent rows.  Training
does not depend on them, except for batches of one row, which are normalized by them.

Source: Wu & Johnson, "Rethinking 'Batch' in BatchNorm" (2021), section 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tractable.gaussian import Gaussian
from tractable.learners.methods.base import TensorDict
from tractable.learners.network.functional import Network
from tractable.training.inputs import Inputs, tensors_of

_LAYERS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_ROWS = 4096  # minimum number of rows that the statistics are computed from
_NUMBERS = 1 << 24  # maximum number of their entries, so that large images do not fill the memory
_BATCH_SIZE = 512


class RecentBatches:
    """The most recent rows of an epoch, from which running statistics are computed.

    >>> recent = RecentBatches()
    >>> for _ in range(3):
    ...     recent.add(torch.zeros(3000, 2))
    >>> recent.rows
    6000
    """

    def __init__(self) -> None:
        self.batches: deque[Inputs] = deque()
        self.rows = 0

    def add(self, x: Inputs) -> None:
        """Keep a batch, and drop the oldest ones that are not needed."""
        self.batches.append(x)
        self.rows += len(x)
        oldest = self.batches[0]
        others = self.rows - len(oldest)
        numbers = others * sum(part[0].numel() for part in tensors_of(oldest))
        if others >= _ROWS or numbers >= _NUMBERS:
            self.batches.popleft()
            self.rows = others

    def large(self) -> list[Inputs]:
        """Return the rows in even batches of several hundred, or unchanged if they cannot be
        joined.
        """
        kept = list(self.batches)
        parts = [x for x in kept if isinstance(x, Tensor) and not isinstance(x, Gaussian)]
        if len(parts) < len(kept) or len({x.shape[1:] for x in parts}) > 1:
            return kept
        joined = torch.cat(parts)
        return list(joined.tensor_split(-(-len(joined) // _BATCH_SIZE)))


def batch_norm_layers(network: Network) -> dict[str, nn.Module]:
    """Return the layers with running statistics, by name."""
    return {
        name: layer
        for name, layer in network.module.named_modules()
        if isinstance(layer, _LAYERS) and layer.running_mean is not None
    }


def refreshed_batch_norm(
    network: Network,
    buffers: TensorDict,
    recent: RecentBatches,
    run: Callable[[TensorDict, Inputs], object],
) -> TensorDict:
    """Return buffers with batch-norm statistics of recent rows, the mean over their batches.

    Args:
        network: the network.
        buffers: its buffers; they are not changed.
        recent: rows to compute the statistics from.
        run: runs the network on rows as in training, and changes the given buffers.
    """
    layers = batch_norm_layers(network)
    fresh = {name: buffer.clone() for name, buffer in buffers.items()}
    for name in layers:
        fresh[_of(name, "num_batches_tracked")].zero_()
    with network.lock, _averaging(layers):
        for x in recent.large():
            run(fresh, x)
    made = {_of(name, part) for name in layers for part in ("running_mean", "running_var")}
    return {name: fresh[name] if name in made else old for name, old in buffers.items()}


@contextmanager
def _averaging(layers: dict[str, nn.Module]) -> Iterator[None]:
    """Make running statistics averages over all batches inside the block."""
    before = {name: layer.momentum for name, layer in layers.items()}
    try:
        for layer in layers.values():
            layer.momentum = None  # type: ignore[assignment]
        yield
    finally:
        for name, layer in layers.items():
            layer.momentum = before[name]


def _of(layer: str, part: str) -> str:
    return f"{layer}.{part}" if layer else part

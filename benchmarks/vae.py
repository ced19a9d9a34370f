"""Compare the processor time of an autoencoder epoch with that of pythae.

    python -m benchmarks vae

Both learn the same 784-200-200-50 networks from the same binary images with Adam and batches of
100; pythae through its own trainer (``train_step``), ours through ``VAE.fit``, whose time is that
of seven epochs less that of two, over five: this excludes initialization.  Needs pythae
(``pip install pythae``).

Target: our epoch is no slower than theirs.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tractable.generative import VAE
from tractable.likelihoods import Bernoulli

ROWS, ROUNDS, LATENT, BATCH = 2_000, 5, 50, 100


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Return two hidden layers of 200."""
    return nn.Sequential(
        nn.Linear(inputs, 200), nn.ELU(), nn.Linear(200, 200), nn.ELU(), nn.Linear(200, outputs)
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        logging.disable(logging.INFO)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def ours(x: Tensor) -> float:
    """Return the duration of an epoch in seconds."""

    def fit(epochs: int) -> float:
        model = VAE(network(784, 100), network(LATENT, 784), Bernoulli("logit"), latent_dim=LATENT,
                    validation_fraction=0.0)  # fmt: skip
        started = time.process_time()
        model.fit(x, epochs=epochs, batch_size=BATCH)
        return time.process_time() - started

    return (fit(7) - fit(2)) / 5


def theirs(x: Tensor) -> float:
    """Return the duration of an epoch by pythae's trainer, the mean of the second and third."""
    from pythae.data.datasets import BaseDataset
    from pythae.models import VAE as PythaeVAE
    from pythae.models import VAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig

    class Encoder(BaseEncoder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network(784, 2 * LATENT)

        def forward(self, rows: Tensor) -> Any:
            mean, log_variance = self.net(rows).chunk(2, -1)
            return ModelOutput(embedding=mean, log_covariance=log_variance)

    class Decoder(BaseDecoder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network(LATENT, 784)

        def forward(self, z: Tensor) -> Any:
            return ModelOutput(reconstruction=torch.sigmoid(self.net(z)))

    config = VAEConfig(input_dim=(784,), latent_dim=LATENT, reconstruction_loss="bce")
    model = PythaeVAE(config, Encoder(), Decoder())
    with tempfile.TemporaryDirectory() as folder, _silence():
        how = BaseTrainerConfig(
            output_dir=folder, num_epochs=3, per_device_train_batch_size=BATCH, no_cuda=True
        )
        data = BaseDataset(x, torch.zeros(len(x)))
        trainer = BaseTrainer(model=model, train_dataset=data, training_config=how)
        trainer.prepare_training()
        trainer.train_step(1)
        started = time.process_time()
        trainer.train_step(2)
        trainer.train_step(3)
        return (time.process_time() - started) / 2


def main() -> dict[str, Any]:
    """Measure both in alternation; return seconds and their ratio."""
    torch.set_num_threads(1)
    x = (torch.rand(ROWS, 784, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    ours(x[:BATCH]), theirs(x[:BATCH])  # imports and compilation
    pairs = [(ours(x), theirs(x)) for _ in range(ROUNDS)]
    ratios = [mine / other for mine, other in pairs]
    return {
        "rows": ROWS,
        "ours, seconds": statistics.median(mine for mine, _ in pairs),
        "pythae, seconds": statistics.median(other for _, other in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def report(found: dict[str, Any]) -> str:
    """Return the results as lines of text."""
    return "\n".join(f"{name}: {value}" for name, value in found.items())


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))

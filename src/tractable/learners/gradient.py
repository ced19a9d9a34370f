"""What the gradient learners share: flat parameters, an optimiser, and predictions by draws.

A learner keeps its parameters in a few flat vectors and supplies the gradient of its objective for
one batch.  The objective of a batch of B rows is ``(w KL - sum of log p(y|z)) / B``, where w is the
batch's share of the divergence (or of the log prior): the scale of the gradient, and so of the
learning rate, does not depend on the size of the batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tractable.gaussian import Gaussian
from tractable.learners import optimiser
from tractable.learners.base import Learner, Moment
from tractable.learners.callbacks import Record
from tractable.learners.optimiser import Factory
from tractable.likelihoods import Likelihood
from tractable.posterior import Posterior, trainable_shapes
from tractable.predictive import Predictive

Schedule = Literal["constant", "cosine"] | Factory

_DROPOUT = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout
)  # fmt: skip
_VALIDATION_DRAWS = 10


class NonFiniteGradient(ArithmeticError):
    """A step would have made a parameter infinite or NaN; nothing was changed."""


class GradientLearner(Learner):
    """A learner that follows the gradient of an objective."""

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        lr: float,
        optimizer: Factory,
        schedule: Schedule,
        draws: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        seed: int,
    ) -> None:
        super().__init__(net, likelihood, device=device, dtype=dtype, seed=seed)
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"lr must be a positive number, got {lr}")
        if draws < 1:
            raise ValueError(f"draws must be at least 1, got {draws}")
        self.lr, self.optimizer, self.schedule, self.draws = lr, optimizer, schedule, draws
        self.seed = seed
        self.shapes = trainable_shapes(self.net)
        self.buffers = {name: b.clone() for name, b in self.net.named_buffers()}
        self._drops = any(isinstance(m, _DROPOUT) and m.p > 0 for m in self.net.modules())
        self._rows = 0.0  # rows that the divergence is shared by: of an epoch, then of updates
        self._totals: dict[str, Any] = {}
        self._kept: Tensor | None = None  # after pruning, which weights may change

    def _start(self, vectors: list[Tensor]) -> None:
        """Take the vectors to learn and make a new optimiser for them."""
        self._vectors = [v.detach().to(self.device, self.dtype).requires_grad_() for v in vectors]
        self._optimizer = optimiser.make(self.optimizer, self._vectors, self.lr)
        self._scheduler = None
        if self.schedule not in ("constant", "cosine"):
            home = torch.optim.lr_scheduler
            self._scheduler = optimiser.resolve(self.schedule, home, "schedule")(self._optimizer)

    # --- what a gradient learner supplies ------------------------------------------------

    @abstractmethod
    def _gradients(
        self, x: Tensor, y: Tensor, buffers: dict[str, Tensor], weight: float
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Log-likelihood of the batch, outputs, and the gradient of each vector.

        The gradients are of ``weight * divergence - log-likelihood``, summed over the batch.
        """

    @abstractmethod
    def _weights(self, draws: int) -> Iterator[list[Tensor]]:
        """Draws of all parameters, to predict with."""

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """What is known about the parameters."""

    @abstractmethod
    def _share(self, moment: Moment) -> float:
        """The weight of the divergence in a batch."""

    # --- the network ---------------------------------------------------------------------

    def _split(self, flat: Tensor) -> list[Tensor]:
        """Views of a flat vector, one per parameter."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = zip(flat.split(sizes), self.shapes.values(), strict=True)
        return [part.view(shape) for part, shape in parts]

    def _run(
        self, weights: list[Tensor], buffers: dict[str, Tensor], x: Tensor, train: bool
    ) -> Tensor:
        if isinstance(x, Gaussian):
            raise TypeError(
                f"{type(self).__name__} takes certain inputs: TAGI learns from Gaussian ones"
            )
        if self.net.training is not train:
            self.net.train(train)
        z = self._call({**dict(zip(self.shapes, weights, strict=True)), **buffers}, x)
        if not isinstance(z, Tensor):
            raise TypeError(f"the network must return one tensor, got {type(z).__name__}")
        return z

    def _log_likelihood(
        self, weights: list[Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        with self._seeded_dropout(self._drops):
            z = self._run(weights, buffers, x, train=True)
        return self.likelihood.log_prob(y, z).sum(), z

    @contextmanager
    def _seeded_dropout(
        self, wanted: bool, generator: torch.Generator | None = None
    ) -> Iterator[None]:
        """Dropout draws from torch's global generator: lend it a seed of ours, then put it back."""
        if not wanted:
            yield
            return
        seed = torch.randint(2**62, (), generator=generator or self.generator).item()
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(seed))
            yield

    # --- learning ------------------------------------------------------------------------

    def _learn(self, x: Tensor, y: Tensor, moment: Moment | None) -> None:
        before = self.generator.get_state()
        rows, weight = self._shares(x.shape[0], moment)
        buffers = {name: b.clone() for name, b in self.buffers.items()}
        log_likelihood, z, gradients = self._gradients(x, y, buffers, weight)
        try:
            self._step(float(log_likelihood), gradients, x.shape[0], moment)
        except NonFiniteGradient:
            self.generator.set_state(before)
            raise
        self._rows, self.buffers = rows, buffers
        if moment is not None:
            self._count(float(log_likelihood), y, z)

    def _shares(self, rows: int, moment: Moment | None) -> tuple[float, float]:
        """Rows that the divergence is shared by, and the weight of it in a batch of ``rows``."""
        if moment is None:
            return self._rows + rows, rows / (self._rows + rows)
        return rows / moment.share, self._share(moment)

    def _step(
        self, log_likelihood: float, gradients: list[Tensor], rows: int, moment: Moment | None
    ) -> None:
        """Follow the gradients of a batch, unless they are not finite."""
        if not math.isfinite(log_likelihood + sum(float(g.sum()) for g in gradients)):
            raise NonFiniteGradient(_NON_FINITE)
        if self.schedule == "cosine":
            done = moment.progress if moment is not None else 0.0
            for group in self._optimizer.param_groups:
                group["lr"] = self.lr * 0.5 * (1 + math.cos(math.pi * done))
        for vector, gradient in zip(self._vectors, gradients, strict=True):
            vector.grad = gradient.div_(rows)
        self._optimizer.step()
        for vector in self._vectors:
            vector.grad = None
        if self._kept is not None:
            self._prune(self._kept)  # an optimiser's momentum must not move them again

    def _count(self, log_likelihood: float, y: Tensor, z: Tensor) -> None:
        totals = self._totals
        totals["log_likelihood"] = totals.get("log_likelihood", 0.0) + log_likelihood
        statistics = self.likelihood.sufficient_statistics(y, z.detach())
        if statistics is not None:
            totals["statistics"] = totals.get("statistics", 0) + statistics

    def _epoch_figures(self) -> Record:
        totals, self._totals = self._totals, {}
        if "statistics" in totals:
            self.likelihood.m_step(totals["statistics"])
        if self._scheduler is not None:
            self._scheduler.step()
        return {"log_likelihood": totals.get("log_likelihood", math.nan)}

    # --- predicting ----------------------------------------------------------------------

    def predict(self, X: Any, *, draws: int | None = None, batch_size: int = 1024) -> Predictive:
        """The distribution of the target at each row of ``X``.

        Args:
            X: inputs.
            draws: sets of weights to average over, instead of the learner's own number.  They are
                the same at every call and for all rows.
            batch_size: rows at once.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if draws is not None and draws < 1:
            raise ValueError(f"draws must be at least 1, got {draws}")
        x = self.format.inputs(X)
        self._output_shape(x)
        predictive = self._predictive(self._all_outputs(x, batch_size, draws))
        return predictive.flat() if self._flat_targets in (None, True) else predictive

    def _all_outputs(
        self, x: Tensor, batch_size: int, draws: int | None = None
    ) -> tuple[Tensor, ...]:
        """The outputs of every draw, draws stacked in front of the rows."""
        outputs = []
        with torch.set_grad_enabled(x.requires_grad):
            for weights in self._weights(draws or self.draws):
                parts = [self._evaluate(weights, part) for part in x.split(batch_size)]
                outputs.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        return (torch.stack(outputs),)

    def _input_gradient(self, x: Tensor, y: Tensor, **options: Any) -> Tensor:
        leaf = x.detach().clone().requires_grad_()
        outputs = self._all_outputs(leaf, len(x), options.get("draws"))
        log_prob = self._predictive(outputs).log_prob(y)
        return torch.autograd.grad(log_prob.sum(), leaf)[0]

    def _evaluate(self, weights: list[Tensor], x: Tensor) -> Tensor:
        return self._run(weights, self.buffers, x, train=False)

    def _outputs(self, x: Tensor) -> tuple[Tensor, ...]:
        return self._all_outputs(x, len(x))

    def _probe(self, x: Tensor) -> torch.Size:
        with torch.no_grad():
            return self._run(self._split(self._vectors[0]), self.buffers, x, train=False).shape

    def _predictive(self, outputs: tuple[Tensor, ...]) -> Predictive:
        (z,) = outputs
        rows = z.flatten(0, 1)
        return self.likelihood.predictive(rows, torch.zeros_like(rows)).pooled(len(z))

    def _moments(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        (z,) = outputs
        return z.mean(0), z.var(0, correction=0)

    def _score(self, x: Tensor, y: Tensor) -> Record:
        draws = min(self.draws, _VALIDATION_DRAWS)
        log_prob = self._predictive(self._all_outputs(x, 1024, draws)).log_prob(y)
        return {"validation_nll": -float(log_prob.mean())}

    # --- state ---------------------------------------------------------------------------

    def _training_state(self) -> tuple[dict[str, Tensor], Any]:
        tensors, values = optimiser.state(self._optimizer)
        schedule = None if self._scheduler is None else _plain(self._scheduler.state_dict())
        return tensors, {"optimizer": values, "schedule": schedule, "rows": self._rows}

    def _restore_training(self, tensors: dict[str, Tensor], values: Any) -> None:
        optimiser.restore(self._optimizer, tensors, values["optimizer"])
        if self._scheduler is not None and values["schedule"] is not None:
            self._scheduler.load_state_dict(values["schedule"])
        self._rows = values["rows"]

    def _options(self) -> dict[str, Any]:
        schedule = self.schedule
        if schedule not in ("constant", "cosine"):
            schedule = optimiser.describe(schedule, torch.optim.lr_scheduler)
        return {
            "lr": self.lr,
            "optimizer": optimiser.describe(self.optimizer, torch.optim),
            "schedule": schedule,
            "draws": self.draws,
            "seed": self.seed,
        }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The part of a scheduler's state that JSON can hold."""
    kinds = (bool, int, float, str, list, tuple, type(None))
    return {key: value for key, value in values.items() if isinstance(value, kinds)}


_NON_FINITE = (
    "the gradient is not finite, so the step was not made: (a) inputs or targets are too large "
    "(standardise them), (b) the learning rate is too high, or (c) the noise of the likelihood is "
    "far too small for the residuals"
)

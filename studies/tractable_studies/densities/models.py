"""The models of the study; each is fitted to training rows and scored on test rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import tractable as tr
from tractable.generative import (
    Autoregressive,
    DensityModule,
    Flow,
    GaussianMixture,
    GenerativeModel,
    neural_spline_flow,
)
from tractable.likelihoods import HeteroscedasticNormal, LogDensity, Mixture
from tractable_studies.densities.tables import Rows

HIDDEN, TRANSFORMS, BATCH, LR = (64, 64), 3, 128, 2e-3
Scores = dict[str, float]


def fitted(make: Callable[[], GenerativeModel], rows: Tensor, **options: Any) -> GenerativeModel:
    """Fit a model to the rows."""
    return make().fit(rows, progress=False, **options)


def score(model: GenerativeModel, rows: Tensor) -> float:
    """Return the mean log density, in nats of standardized columns."""
    return float(model.predict().log_prob(rows).double().mean())


def gaussian(rows: Rows, seed: int) -> Scores:
    """Fit the maximum likelihood Gaussian."""
    started = time.process_time()
    model = GaussianMixture(
        1, prior_count=0.0, validation_fraction=0, seed=seed, dtype=torch.float64
    )
    found = score(model.fit(rows.learnt.double()), rows.test)
    return {"log_density": found, "seconds": time.process_time() - started}


def mixture(rows: Rows, seed: int) -> Scores:
    """Fit a Gaussian mixture by EM; the number of components is chosen on validation rows."""
    started = time.process_time()
    model = GaussianMixture(validation_fraction=0, seed=seed, n_init=1, dtype=torch.float64)
    found = score(model.fit(rows.learnt.double()), rows.test)
    return {
        "log_density": found,
        "seconds": time.process_time() - started,
        "components": float(len(model.mixture_.weights)) if model.mixture_ is not None else 0.0,
    }


def autoregressive(kind: Any, passes: tuple[int, ...], floors: tuple[float, ...]) -> Any:
    """Fit a chain of conditionals; epochs and noise floor are chosen on validation rows."""

    def run(rows: Rows, seed: int) -> Scores:
        started = time.process_time()

        def make(floor: float) -> Autoregressive:
            options = {} if kind is tr.TAGI else {"lr": LR}
            return Autoregressive(
                HIDDEN, Mixture(HeteroscedasticNormal(), 3), min_noise=floor, learner=kind,
                learner_kwargs=options, validation_fraction=0, seed=seed,
            )  # fmt: skip

        tried = {}
        for epochs in passes:
            for floor in floors:
                try:
                    model = make(floor).fit(rows.train, epochs=epochs, progress=False)
                    tried[epochs, floor] = score(model, rows.validation)
                except ArithmeticError:
                    tried[epochs, floor] = -float("inf")
        epochs, floor = max(tried, key=lambda key: tried[key])
        began = time.process_time()
        model = make(floor).fit(rows.learnt, epochs=epochs, progress=False)
        fitting = time.process_time() - began
        return {
            "log_density": score(model, rows.test), "seconds": fitting,
            "choosing": began - started, "epochs": float(epochs), "floor": floor,
            "swing": max(tried.values()) - min(tried.values()),
        }  # fmt: skip

    return run


def splines(members: int, passes: tuple[int, ...]) -> Callable[[Rows, int], dict[str, Scores]]:
    """Fit spline flows with equal numbers of epochs: Backprop, a zuko loop, an ensemble.

    The number of epochs is chosen on the validation rows, with one flow.
    """

    def run(rows: Rows, seed: int) -> dict[str, Scores]:
        def make(size: int) -> Flow:
            return Flow(
                hidden_layer_sizes=HIDDEN, n_transforms=TRANSFORMS, n_estimators=size,
                learner_kwargs={"lr": LR}, validation_fraction=0, standardize=False, seed=seed,
            )  # fmt: skip

        tried = {
            n: score(
                fitted(partial(make, 1), rows.train, epochs=n, batch_size=BATCH), rows.validation
            )
            for n in passes
        }
        epochs = max(tried, key=lambda n: tried[n])
        found: dict[str, Scores] = {}
        for name, size in (("NSF, Backprop", 1), (f"NSF, ensemble of {members}", members)):
            began = time.process_time()
            model = fitted(partial(make, size), rows.learnt, epochs=epochs, batch_size=BATCH)
            found[name] = {
                "log_density": score(model, rows.test),
                "seconds": time.process_time() - began, "epochs": float(epochs),
            }  # fmt: skip
        began = time.process_time()
        plain = zuko_loop(make(1), rows.learnt, epochs)
        with torch.no_grad():
            log_density = float(plain().log_prob(rows.test).double().mean())
        found["NSF, plain loop over zuko"] = {
            "log_density": log_density, "seconds": time.process_time() - began,
            "epochs": float(epochs),
        }  # fmt: skip
        return found

    return run


def zuko_loop(model: Flow, x: Tensor, epochs: int) -> Any:
    """Train a flow in a plain loop: Adam, a cosine schedule, batches in random order.

    It starts at the weights that the learner draws, and takes batches in the learner's order, so
    that what is left is the difference between two programs and not between two seeds.
    """
    plain: Any = neural_spline_flow(x.shape[1], hidden_layer_sizes=HIDDEN, n_transforms=TRANSFORMS)
    learner = model.make_learner(DensityModule(plain), LogDensity())
    drawn = learner.posterior
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(drawn[f"net.{name}"].loc)
    generator = torch.Generator()
    generator.set_state(learner.state.generator.get_state())
    optimizer = torch.optim.Adam(plain.parameters(), LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            loss = -plain().log_prob(x[batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return plain

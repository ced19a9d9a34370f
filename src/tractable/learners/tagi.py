"""TAGI: closed-form Gaussian inference of the weights, without gradients.

How it learns is in ``tractable.learners.tagi_method``, with the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tractable.gaussian import Gaussian
from tractable.learners.batch_rule import BatchRule
from tractable.learners.engines import EngineName, Floats, Slopes, Snapshot, TAGIState
from tractable.learners.learner import Learner
from tractable.learners.start import Init
from tractable.learners.tagi_method import TAGIMethod
from tractable.likelihoods import Likelihood
from tractable.likelihoods.gate import Surprises
from tractable.posterior import Posterior
from tractable.rules.activation import Mode


class TAGI(Learner):
    """Learn Gaussian weights in closed form.

    Args:
        net: any module whose torch functions have moment rules.
        likelihood: how observations depend on the network's outputs.
        init: scheme of the prior: ``"lecun"`` (1 / fan_in, as published), ``"he"``,
            ``"xavier"``; or ``"net"``: the means are the module's own weights, as trained by
            whatever means, and the prior is narrow around them.
        gain: factor on the variance of the first means, which are drawn.  By default chosen by
            the depth and kind of the network (``tractable.learners.start``): 0.25 up to two
            hidden layers, which suits tables of several columns (it was chosen on the UCI sets);
            functions of one or two inputs that bend much, as in the tutorial, want the published
            1.  Numbers for both are in ``docs/gotchas.md``.
        relative_variance: prior variance of the weights over that of the first means: by default
            1, as published, if a gain is given or the network is shallow, and less with depth;
            0.001 with ``init="net"``.
        even_steps: whether the relative variance is that of a matrix of 5,000 weights and grows
            with the root of their number, so that large and small layers move alike; by default
            for classes and networks with normalisation layers, where no gain is stated.
        branches: factor on the variance of the first means of what ends a residual branch, which
            is its last matrix or the scale of the normalisation after it: less than 1 where there
            are many branches, whose sum would otherwise be large and alike for all inputs.  By
            default chosen by their number, and 1 where a gain is stated.
        fresh: with ``init="net"`` or ``prior``, names of modules that begin anew and wide, such as
            the head that was put on a trained network.
        prior: what another fit found, its ``posterior`` or the learner itself: every parameter
            that is not ``fresh`` begins with the mean and the variance it has there.
        widen: factor on the variances of ``prior``: more than 1 where the new rows may differ.
        moments: how activations map mean and variance: ``"linear"`` (at the tangent, eq. 10),
            ``"exact"`` where a closed form exists, or ``"auto"``: at the tangent, but exact for
            sine and cosine, whose tangent has no bound.  ``docs/theory.md`` has numbers.
        batch_rule: ``"damped"`` or ``"published"``; see ``tractable.learners.batch_rule``.
        forget: share of the information of an epoch that is forgotten over the next one, falling
            to zero at the last; 0 is the textbook method, for a single epoch or for streams.
        device: device to compute on; by default the CPU.
        dtype: precision, ``torch.float32`` or ``torch.float64``; by default torch's default.
        seed: seed of the random number generator for the initial means, the order of the rows
            and draws of the weights.
        compile: compile the whole step with ``torch.compile``, once per shape of batch that comes
            often; minutes for a deep network, and then about two thirds of the time.
            Where a robust learner has a gate, an update computes the outputs twice.
        engine: ``"native"`` computes with the compiled kernel (chains of linear layers and
            elementwise activations in float32 on the CPU), ``"torch"`` with torch, ``"auto"``
            with the kernel where it can and is faster.  The result is the same but for rounding.
        robust: no single reading may wreck the model.  With normal likelihoods and the damped
            rule, one value moves the weights of a network of several layers by three of their
            standard deviations at most (``tractable.learners.batch_rule``); where the noise is
            inferred or predicted, or ``Normal(outliers=True)``, values far from all that was
            expected count for less (``tractable.likelihoods.gate``) and are counted in
            ``surprises``; running statistics of batch normalisation take in an odd batch slowly.
            A network of one linear layer with a known noise is exact, with it and without.

    An epoch that is interrupted leaves the native engine as it was before that epoch.  One that
    meets a message that is not finite ends with ``NonFiniteUpdate``, and either engine is as it
    was before the batch that caused it.

    With ``prior``, forgetting between epochs returns each parameter to the mean variance of its
    tensor in the prior.

    Exact: the moments of each linear layer, given those of its inputs and weights; one update of
    a linear network by one observation.  Approximate: weights and units are independent
    Gaussians, and activations are linearised at their mean.
    """

    method_class = TAGIMethod
    method: TAGIMethod
    state: TAGIState

    def __init__(
        self,
        net: nn.Module,
        likelihood: Likelihood,
        *,
        init: Init = "lecun",
        gain: float | None = None,
        relative_variance: float | None = None,
        even_steps: bool | None = None,
        branches: float | None = None,
        fresh: Sequence[str] = (),
        prior: Posterior | Learner | dict[str, Any] | None = None,
        widen: float = 1.0,
        moments: Mode = "auto",
        batch_rule: BatchRule = "damped",
        forget: float = 0.3,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        seed: int = 0,
        compile: bool = False,
        engine: EngineName = "auto",
        robust: bool = True,
    ) -> None:
        super().__init__(
            net, likelihood, device=device, dtype=dtype, seed=seed, init=init, gain=gain,
            relative_variance=relative_variance, even_steps=even_steps, branches=branches,
            fresh=fresh, prior=prior, widen=widen, moments=moments, batch_rule=batch_rule,
            forget=forget, compile=compile, engine=engine, robust=robust,
        )  # fmt: skip

    @property
    def engine(self) -> EngineName:
        """Name of the engine that computes: ``"native"`` or ``"torch"``.

        Where ``"auto"`` chose the kernel, torch still takes inputs of other shapes and batches
        that are large for it.
        """
        return self.method.engine.name

    @property
    def surprises(self) -> Surprises:
        """Values that were believed in part only: how many so far, and the last few.

        None are where the learner is not robust, or knows the noise (see ``robust``).
        """
        with self.lock:
            gate = self.state.gate
            return Surprises(0, ()) if gate is None else gate.surprises()

    def propagate(self, x: Tensor) -> Gaussian:
        """The Gaussian of the network's output, in whose graph only ``x`` gets messages."""
        with self.lock:
            return self.method.propagate(self.state, x)

    def snapshot(self, noise: Floats | None = None) -> Snapshot:
        """The network as it is now, as a function of arrays: for many small predictions.

        Args:
            noise: standard normals (float32), one for each parameter: the network is then that of
                one draw of the weights, ``mean + std * noise``, without variance.

        Returns:
            A function from float32 rows to the mean and variance of the outputs, without checks
            and without the likelihood's noise.  What is learnt later does not change it.
        """
        with self.lock:
            return self.method.engine.snapshot(self.state, noise)

    def slopes(self, x: Gaussian) -> Slopes | None:
        """Mean, variance and curvature of the only output by every input, by the kernel.

        None where the kernel does not serve: ``tractable.infer.derivatives`` does.
        """
        with self.lock:
            return self.method.engine.slopes(self.state, x)

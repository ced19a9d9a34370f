"""TAGI: closed-form Gaussian inference of the weights, without gradients.

How it learns is in ``tractable.learners.methods.tagi.method``, with the sources.
"""

from __future__ import annotations

from torch import Tensor

from tractable.gaussian import Gaussian
from tractable.learners.learner import Learner
from tractable.learners.methods.tagi.engines import EngineName, Floats, Slopes, Snapshot, TAGIState
from tractable.learners.methods.tagi.method import TAGIMethod
from tractable.learners.methods.tagi.outlier_gate import OutlierReport


class TAGI(Learner):
    """A learner of Gaussian weights, in closed form and without gradients.

    Args:
        net: module whose torch functions have moment rules.
        likelihood: observation model.
        init: variances of the prior: ``"lecun"`` (1 / fan_in, as published), ``"he"`` or
            ``"xavier"``, with means drawn at random; or ``"net"``: the means are the weights of
            ``net``, for example pretrained ones, with a narrow prior around them.
        gain: factor on the variance of the initial means. Default: chosen from the structure of the
            network (``tractable.learners.methods.tagi.initialization``); 0.25 up to two hidden
            layers, chosen on the UCI data sets. Strongly nonlinear functions of one or two inputs
            need the published 1; see ``docs/gotchas.md``.
        prior_variance_ratio: prior variance of the weights divided by the variance of their
            initial means. Default: 1, as published, if ``gain`` is given or the network is
            shallow, less for deep networks, and 0.001 with ``init="net"``.
        scale_by_layer_size: if True, ``prior_variance_ratio`` holds for a matrix of 5,000 weights
            and grows with the square root of their number, so that small and large layers are
            updated at the same relative rate. Default: True for classification with normalization
            layers, unless ``gain`` is given.
        residual_gain: factor on the variance of the initial means at the end of each residual
            branch (its last matrix, or the scale of the normalization after it). Default: 1 for
            few branches or a given ``gain``, less for many branches, whose sum would be large.
        reinit: names of modules that are initialized at random although weights are given
            (``init="net"`` or ``prior``), such as a new head on a pretrained network.
        prior: posterior of another fit, or its learner. Each parameter outside ``reinit`` starts
            from its mean and variance there.
        prior_scale: factor on the variances of ``prior``. Values above 1 suit new data that may
            differ from the earlier data.
        moments: how activations transform mean and variance: ``"linear"`` (tangent at the mean,
            eq. 10), ``"exact"`` where a closed form exists, or ``"auto"``: exact for sine and
            cosine, whose tangent is unbounded, otherwise linear. ``docs/theory.md`` compares them.
        batch_rule: ``"damped"`` or ``"published"``; see
            ``tractable.learners.methods.tagi.batch_rule``.
        epoch_forgetting: share of the information of an epoch that is forgotten during the next
            one, decreasing to 0 in the last epoch. 0 is the published method, for a single epoch
            or for streams. Default: 0.3.
        device: device of the computation. Default: CPU.
        dtype: ``torch.float32`` or ``torch.float64``. Default: torch's default dtype.
        seed: seed of the random generator for the initial means, the order of rows and samples of
            weights.
        compile: compile the training step with ``torch.compile``, once per frequent batch shape.
            This takes minutes for a deep network and saves about a third of the time of a step.
            With outlier detection (``robust``), an update computes the outputs twice.
        engine: ``"native"`` for the compiled kernel (chains of linear layers and elementwise
            activations in float32 on the CPU), ``"torch"``, or ``"auto"``: the kernel where it is
            applicable and faster. Results agree up to rounding.
        robust: limit the influence of single observations. For normal likelihoods and the damped
            rule, one value moves the weights of a network of several layers by at most three of
            their standard deviations (``tractable.learners.methods.tagi.batch_rule``). If the noise
            is inferred or predicted, or with ``Normal(outliers=True)``, outlying values are
            down-weighted (``tractable.learners.methods.tagi.outlier_gate``) and counted in
            ``outliers``. Running statistics of batch normalization follow unusual batches slowly.
            A network of one linear layer with known noise is exact with and without this option.

    An interrupted epoch leaves a model with the native engine as it was before that epoch. An
    epoch with a non-finite message raises ``NonFiniteUpdate`` and leaves the model, with either
    engine, as it was before the batch that caused it.

    With ``prior``, forgetting between epochs returns each parameter to the mean variance of its
    tensor in the prior.

    Exact: the moments of each linear layer, given those of its inputs and weights; one update of
    a linear network by one observation.  Approximate: weights and units are independent
    Gaussians, and activations are linearized at their mean.

    References: Goulet, Nguyen & Amiri, "Tractable approximate Gaussian inference for Bayesian
        neural networks" (2021). Equations and further references:
        ``tractable.learners.methods.tagi.method``.
    """

    method_class = TAGIMethod
    method: TAGIMethod
    state: TAGIState

    @property
    def engine(self) -> EngineName:
        """Name of the engine that is used: ``"native"`` or ``"torch"``.

        Where ``"auto"`` chose the kernel, torch still takes inputs of other shapes and batches
        that are large for it.
        """
        return self.method.engine.name

    @property
    def outliers(self) -> OutlierReport:
        """Targets that were down-weighted: their number, and the last few.

        There are none with ``robust=False``, or if the noise is known (see ``robust``).
        """
        with self.lock:
            gate = self.state.gate
            return OutlierReport(0, ()) if gate is None else gate.outliers()

    def propagate(self, x: Tensor) -> Gaussian:
        """Return the Gaussian output of the network, in whose graph only ``x`` receives
        messages.
        """
        with self.lock:
            return self.method.propagate(self.state, x)

    def snapshot(self, noise: Floats | None = None) -> Snapshot:
        """Return the current network as a function of arrays, for many small predictions.

        Args:
            noise: standard normals (float32), one for each parameter. The weights are then the
                sample ``mean + std * noise``, without variance.

        Returns:
            A function from float32 rows to the mean and variance of the outputs, without checks
            and without the likelihood's noise.  Later updates do not change it.
        """
        with self.lock:
            return self.method.engine.snapshot(self.state, noise)

    def slopes(self, x: Gaussian) -> Slopes | None:
        """Return mean, variance and curvature of the single output by every input, by the kernel.

        None if the kernel does not support the model; use ``tractable.infer.derivatives`` then.
        """
        with self.lock:
            return self.method.engine.slopes(self.state, x)

"""Targets and arguments that cannot be, refused before any training, with the row."""

import math

import pytest
import torch
from torch import nn

import tractable as tr
from tractable.likelihoods import (
    Bernoulli,
    FromDistribution,
    InvalidTarget,
    Joint,
    Laplace,
    Mixture,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    PerStep,
    Poisson,
    Softmax,
    StudentT,
    VonMises,
)


@pytest.mark.parametrize(
    ("likelihood", "y", "outputs", "error"),
    [
        (Poisson(), [1.0, 2.0, -1.0], 1, r"whole numbers from 0, got -1 in row 2"),
        (Poisson(), [1.0, 0.5, 3.0], 1, r"got 0\.5 in row 1"),
        (NegativeBinomial(), [1, 2, -3], 1, r"got -3 in row 2"),
        (Ordinal(3), [0, 3, 1], 1, r"0\.\.2.*row 1"),
        (Ordinal(3), [0.0, 1.5, 1.0], 1, r"whole numbers, got 1\.5 in row 1"),
        (VonMises(), [0.1, 270.0, 90.0], 1, r"radians, got 270 in row 1.*deg2rad"),
        (Laplace(), [0.0, math.nan, 1.0], 1, "row 1"),
        (StudentT(), [0.0, 1.0, math.inf], 1, "row 2"),
        (Bernoulli(), [0, 1, 2], 1, r"0\.\.1.*row 2"),
        (
            FromDistribution(lambda z: torch.distributions.Exponential(z.exp())),
            [1, 2, -1],
            1,
            "-1 in row 2",
        ),
        (Joint(Normal(0.1), Poisson()), [[math.nan, math.nan]] * 3, 2, "all targets are missing"),
        (Joint(Normal(0.1), Poisson()), [[0, 1], [0, 1.5], [0, 0]], 2, r"Poisson: .*1\.5 in row 1"),
        (Joint(Normal(0.1), Poisson()), [0.0, 1.0, 2.0], 2, "2 targets per row"),
    ],
)
def test_bad_targets_before_training(likelihood, y, outputs, error):
    model = tr.TAGI(nn.Linear(2, outputs), likelihood)
    before = model.posterior.loc.clone()
    with pytest.raises(InvalidTarget, match=error):
        model.fit(torch.randn(3, 2), torch.tensor(y), epochs=1, progress=False)
    assert torch.equal(model.posterior.loc, before)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Laplace(0.0), "scale must be a positive"),
        (lambda: StudentT(scale=-1.0), "scale must be a positive"),
        (lambda: StudentT(df=0.0), "df must be a positive"),
        (lambda: NegativeBinomial(math.nan), "total_count must be a positive"),
        (lambda: VonMises(-2.0), "concentration must be a positive"),
        (lambda: Laplace(outputs=0), "outputs must be at least 1"),
        (lambda: Ordinal(1), "levels must be at least 2"),
        (lambda: Ordinal(3, [1.0, 0.0]), "increasing"),
        (lambda: Ordinal(2, [math.nan]), "increasing"),
        (lambda: Mixture(Normal(), 1), "at least 2 components"),
        (lambda: Joint(Normal()), "at least two"),
        (lambda: MultivariateNormal(1), "at least 2"),
        (lambda: MultivariateNormal(2, [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Poisson("log"), "link must be"),
        (lambda: Bernoulli("log"), "link must be"),
        (lambda: Softmax(3, smoothing=1.0), "smoothing must lie"),
        (lambda: FromDistribution(lambda z: z, outputs=3), "outputs must be 1 or 2"),
    ],
)
def test_bad_arguments(make, error):
    with pytest.raises(ValueError, match=error):
        make()


@pytest.mark.parametrize(
    ("likelihood", "outputs", "error"),
    [
        (Laplace(), 3, r"Laplace\(outputs=3\)"),
        (Ordinal(3), 2, "one output"),
        (Mixture(Normal(), 3), 3, r"3 \+ 3 m"),
        (Joint(Normal(), Normal()), 3, "need 2 outputs"),
        (MultivariateNormal(2), 3, "2 outputs per row"),
        (Bernoulli(), 2, "one output per label"),
    ],
)
def test_networks_of_the_wrong_width(likelihood, outputs, error):
    with pytest.raises(ValueError, match=error):
        likelihood.check_targets(torch.zeros(2), torch.Size([2, outputs]))


@pytest.mark.parametrize(
    "likelihood",
    [
        Normal(0.5),
        Normal(0.5, missing=True),
        Bernoulli(),
        PerStep(Normal(0.5)),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_held_out_rows_of_another_likelihood_are_refused(likelihood):
    rows = torch.zeros(3, 1)
    with pytest.raises(TypeError, match=r"held_out must have a .* got Poisson"):
        likelihood.held_out_scale([(Poisson(), rows, rows, rows + 1)])

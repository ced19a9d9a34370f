"""All learners against the same tests."""

from functools import partial

import torch

import tractable as tr
from tractable.testing import LearnerConformance as Conformance


class TestTAGI(Conformance):
    def make(self, net, likelihood, **options):
        return tr.TAGI(net, likelihood, **options)


class TestBayesByBackprop(Conformance):
    output_error = 1.0  # of 20 draws

    def make(self, net, likelihood, **options):
        return tr.BayesByBackprop(net, likelihood, n_weight_samples=20, lr=1e-2, **options)


class TestLocal(Conformance):
    output_error = 1.0

    def make(self, net, likelihood, **options):
        return tr.BayesByBackprop(
            net, likelihood, n_weight_samples=20, lr=1e-2, estimator="local", n_train_samples=2,
            prior=tr.priors.ScaleMixture(0.5, 1.0, 0.05), kl_weight="blundell",
            schedule=partial(torch.optim.lr_scheduler.StepLR, step_size=20, gamma=0.5), **options,
        )  # fmt: skip


class TestBackprop(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Backprop(net, likelihood, prior=tr.priors.Laplace(1.0), lr=1e-2, **options)


class TestDropout(Conformance):
    dropout = 0.2

    def make(self, net, likelihood, **options):
        return tr.Backprop(
            net, likelihood, mc_dropout=True, n_weight_samples=20, lr=1e-3,
            optimizer=partial(torch.optim.SGD, momentum=0.9, nesterov=True), **options,
        )  # fmt: skip


class TestEnsemble(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Ensemble(net, likelihood, n_estimators=3, lr=1e-2, **options)


class TestEnsembleOfTAGI(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Ensemble(net, likelihood, n_estimators=2, learner=tr.TAGI, **options)


class TestLaplace(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Laplace(net, likelihood, lr=1e-2, structure="last_layer", **options)


class TestDiagonalLaplace(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Laplace(net, likelihood, lr=1e-2, structure="diagonal", **options)


class TestEnsembleOfLaplace(Conformance):
    def make(self, net, likelihood, **options):
        return tr.Ensemble(net, likelihood, n_estimators=2, learner=tr.Laplace, lr=1e-2, **options)

"""The registry lists every likelihood, and the tables derived from it are complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

import tractable as tr
from tractable import likelihoods
from tractable.cli import supervised
from tractable.likelihoods import Likelihood, registry
from tractable.likelihoods.registry import REGISTRY, REGRESSION_LIKELIHOODS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api" / "likelihoods.md"


def test_every_likelihood_has_one_entry():
    exported = [getattr(likelihoods, name) for name in likelihoods.__all__]
    classes = {
        kind
        for kind in exported
        if isinstance(kind, type) and issubclass(kind, Likelihood) and kind is not Likelihood
    }
    listed = [entry.likelihood for entry in REGISTRY]
    assert len(listed) == len(set(listed))
    assert set(listed) == classes


def test_the_reference_page_lists_every_likelihood_in_its_group():
    sections = PAGE.read_text().split("\n## ")
    found = {section.split("\n")[0]: section for section in sections[1:]}
    for entry in REGISTRY:
        line = f"::: tractable.likelihoods.{entry.likelihood.__name__}"
        assert line in found[entry.group].split("\n"), f"{PAGE} lacks {line!r} below {entry.group}"


@pytest.mark.parametrize("name", REGRESSION_LIKELIHOODS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_number_of_outputs_fits_the_likelihood(name, n_targets):
    target = REGRESSION_LIKELIHOODS[name]
    outputs = torch.Size([3, target.n_outputs(n_targets)])
    y = torch.ones(3, n_targets)
    likelihood = target.factory(n_targets)
    checked = likelihood.check_targets(y, outputs)
    zero = torch.zeros(outputs)
    assert likelihood.log_evidence(checked, zero, zero + 1).isfinite().all()


def test_the_description_lists_every_name():
    text = registry.describe_regression_targets()
    for name in REGRESSION_LIKELIHOODS:
        assert f"{name} (" in text


def test_the_command_line_documents_every_name():
    annotation = inspect.signature(supervised.fit, eval_str=True).parameters["likelihood"]
    (option,) = annotation.annotation.__metadata__
    for name in REGRESSION_LIKELIHOODS:
        assert name in option.help.replace(",", " ").replace(".", " ").split()


@pytest.mark.parametrize("page", ["estimators.md", "command_line.md"])
def test_the_guides_list_every_name(page):
    text = (ROOT / "docs" / "guide" / page).read_text()
    for name in REGRESSION_LIKELIHOODS:
        assert re.search(rf"`\"?{name}\"?`", text), f"docs/guide/{page} lacks `{name}`"


def test_estimators_document_every_name():
    for estimator in (tr.sklearn.TAGIRegressor,):
        text = inspect.getdoc(estimator)
        for name in REGRESSION_LIKELIHOODS:
            assert f'``"{name}"``' in text

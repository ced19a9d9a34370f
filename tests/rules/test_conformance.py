"""The rules of the library against the battery for everybody's rules."""

import pytest

from tests.rules.cases import EXACT, LINEAR, LINEARIZED, TANGENT
from tractable.testing import RuleConformance

# Some functions of torch have no batching rule, which only the samples here would use.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


class TestLinear(RuleConformance):
    cases = LINEAR


class TestLinearized(RuleConformance):
    cases = tuple(curve.case("linearized") for curve in LINEARIZED)


class TestExact(RuleConformance):
    cases = tuple(curve.case("exact") for curve in EXACT)


class TestTangent(RuleConformance):
    cases = TANGENT

"""The rules of the library against the battery for everybody's rules."""

from tests.rules.cases import EXACT, LINEAR, LINEARISED
from tractable.testing import RuleConformance


class TestLinear(RuleConformance):
    cases = LINEAR


class TestLinearised(RuleConformance):
    cases = tuple(curve.case("linearised") for curve in LINEARISED)


class TestExact(RuleConformance):
    cases = tuple(curve.case("exact") for curve in EXACT)

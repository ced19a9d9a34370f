"""Tests that ``config`` holds every argument of a likelihood's constructor."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from tractable.likelihoods import Likelihood
from tractable.testing.likelihood_case import LikelihoodCase


class ConfigTests(LikelihoodCase):
    """Tests that a likelihood can be made again from its ``config``."""

    def test_its_arguments_make_it_again(self) -> None:
        assert_same(rebuilt(self.make()), self.make())

    def test_every_argument_is_in_its_config(self) -> None:
        """With another value for one argument at a time."""
        kind, base = type(self.make()), self.make().config()
        for name, parameter in inspect.signature(kind).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            likelihood = self.varied(name, parameter, base)
            assert_same(rebuilt(likelihood), likelihood)

    def varied(self, name: str, parameter: inspect.Parameter, base: dict[str, Any]) -> Likelihood:
        """Return the likelihood with another value of one argument."""
        kind = type(self.make())
        if name in self.arguments:
            return kind(**{**base, **self.arguments[name]})
        hint = get_type_hints(kind.__init__).get(name)
        given = base.get(name, parameter.default)
        for value in candidates(given, hint):
            try:
                return kind(**{**base, name: value})
            except (TypeError, ValueError):
                continue
        raise AssertionError(
            f"no other value of the argument {name} is known: give a valid one, "
            f"arguments = {{{name!r}: {{{name!r}: ...}}}}"
        )


def candidates(given: Any, hint: Any) -> Iterator[Any]:
    """Yield other valid values of an argument, to test that it is saved and loaded."""
    options = [option for part in (hint, *get_args(hint)) for option in _literals(part)]
    yield from (option for option in options if option != given)
    if isinstance(given, bool):
        yield not given
    elif isinstance(given, int):
        yield from (given + 1, given + 2, given - 1)
    elif isinstance(given, float):
        yield from (0.9 * given + 0.01, 0.5 * given, given + 1)
    elif given is None or given is inspect.Parameter.empty:
        yield from (0.37, 2, 5)


def _literals(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def rebuilt(likelihood: Likelihood) -> Likelihood:
    """Return the likelihood made from its config, as from a file."""
    arguments = json.loads(json.dumps(likelihood.config()))
    made: Likelihood = type(likelihood)(**arguments)
    return made


def assert_same(got: nn.Module, want: nn.Module) -> None:
    """Raise unless two likelihoods have the same buffers and attributes."""
    assert type(got) is type(want)
    own, other = got.state_dict(), want.state_dict()
    assert own.keys() == other.keys()
    for name, value in other.items():
        assert torch.equal(own[name], value), f"config() loses an argument: {name} differs"
    for module, other_module in zip(got.modules(), want.modules(), strict=True):
        for name in vars(other_module).keys() - vars(nn.Module()).keys():
            one, two = vars(module).get(name), vars(other_module)[name]
            same = torch.equal(one, two) if isinstance(one, Tensor) else one == two
            assert same, f"config() loses an argument: {name} is {one!r}, not {two!r}"

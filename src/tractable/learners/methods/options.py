"""Options of a method as arguments of its learner's constructor."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from typing import Any

from tractable.errors import UnknownArgument
from tractable.keywords import unknown_keyword


def make_options(learner: type, options_class: type, given: dict[str, Any]) -> Any:
    """Return an object of ``options_class`` with these arguments.

    Args:
        learner: class of the learner, for error messages.
        options_class: a dataclass.
        given: arguments of the constructor that the learner does not take itself.

    Raises:
        UnknownArgument: an argument is not an option.
    """
    names = [entry.name for entry in fields(options_class)]
    for name in given:
        if name not in names:
            raise UnknownArgument(unknown_keyword(learner.__name__, name, names))
    return options_class(**given)


def signature_with_options(constructor: Any, options_class: type) -> inspect.Signature:
    """Return the signature of ``__init__`` with the options in place of ``**options``."""
    own = list(inspect.signature(constructor).parameters.values())[1:]
    if not fields(options_class):
        return inspect.Signature(own)
    plain = [parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if entry.default is MISSING else entry.default,
            annotation=entry.type,
        )
        for entry in fields(options_class)
    ]
    return inspect.Signature([*plain, *options])

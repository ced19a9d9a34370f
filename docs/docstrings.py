"""Docstrings as the reference shows them: a Griffe extension.

The docstrings are written to be read in the source.  For the pages, doctests become code blocks
(Markdown would take ``>>>`` for quotations), the lines *Exact:* and *Approximate:* paragraphs of
their own, and roles such as ``:meth:`fit` `` plain code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", flags=re.MULTILINE)
_LABEL = re.compile(r"\n+(Exact|Approximate|Source|Supported): ?")
_ROLE = re.compile(r":(?:class|func|meth|mod|math|attr):(?=`)")


def readable(text: str) -> str:
    """The docstring in Markdown."""
    text = _ROLE.sub("", text)
    text = _LABEL.sub(lambda found: f"\n\n*{found[1]}:* ", text)
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class Readable(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)

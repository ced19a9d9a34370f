"""Rule of the embedding look-up.

Exact: a row is taken as it is.
Approximate: a row that is looked up twice is afterwards taken as two independent ones.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tractable.gaussian import Gaussian, moment_rule


@moment_rule(F.embedding)
def embedding(input: Tensor, weight: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Row ``input`` of ``weight``; messages to a row used several times add."""
    if kwargs.get("max_norm") is not None:
        raise TypeError("embedding with max_norm would change its Gaussian weight: use None")
    if kwargs.get("scale_grad_by_freq"):
        raise TypeError("scale_grad_by_freq would average messages, which add: use False")
    return Gaussian.wrap(
        F.embedding(input, weight.loc, *args, **kwargs),
        F.embedding(input, weight.variance, *args, **kwargs),
    )

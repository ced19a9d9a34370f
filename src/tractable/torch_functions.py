"""Names of torch functions, and the functions that do not depend on the values of a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def torch_functions(name: str) -> tuple[Any, ...]:
    """Return all functions of torch with this name: ``torch.x``, ``Tensor.x`` and ``F.x``.

    Raises:
        AttributeError: torch has no function of this name.
    """
    modules = (torch, Tensor, torch.nn.functional)
    # callable() leaves out constants such as torch.float.
    found = [f for module in modules if callable(f := getattr(module, name, None))]
    if not found:
        raise AttributeError(f"torch has no function called {name!r}")
    return tuple(found)


def function_name(function: Any) -> str:
    """Return the name of a torch function or property, for messages."""
    name = getattr(function, "__name__", None)
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", name)
    return str(name or function)


def normalize_keywords(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords with ``dim`` and ``keepdim`` for their synonyms in torch."""
    names = {"axis": "dim", "keepdims": "keepdim"}
    return {names.get(name, name): value for name, value in kwargs.items()}


def _metadata() -> set[Any]:
    properties = (
        "shape dtype device ndim requires_grad is_leaf layout grad_fn is_cuda is_cpu is_meta "
        "is_sparse is_sparse_csr is_quantized is_mkldnn is_nested is_mps is_xpu is_xla is_mtia "
        "is_maia is_vulkan is_ipu names itemsize nbytes"
    ).split()
    methods = (
        "size dim numel nelement ndimension is_floating_point is_complex is_signed is_conj is_neg "
        "is_distributed element_size get_device __len__ __hash__ is_contiguous stride is_nonzero "
        "is_inference"
    ).split()
    getters = {getattr(Tensor, name).__get__ for name in properties if hasattr(Tensor, name)}
    return getters | {
        getattr(owner, name)
        for owner in (torch, Tensor)
        for name in methods
        if hasattr(owner, name)
    }


METADATA = _metadata()
"""Properties and methods that do not depend on the values: evaluated by torch itself."""

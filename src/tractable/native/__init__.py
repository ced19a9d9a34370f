"""The compiled kernel: TAGI for small dense networks, a whole epoch in one call.

It computes what ``tractable.learners.methods.tagi`` computes with torch, for chains of linear
layers and elementwise activations in float32 on the CPU, where the calls of torch would take most
of the time.  The torch implementation is the definition; ``tests/native`` compares the two.

C++17, bound with pybind11: a maintained, header-only library that needs a compiler at build time
only.  The C++ extensions of torch would tie a wheel to one version of torch.  Arrays are passed as
NumPy views of the tensors, without a copy.  Only index arrays (labels, the order of the rows) are
copied, so that no other thread can change them after they were checked.

The package can be installed without a compiler: then ``kernel()`` is None, and torch computes
everything.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def kernel() -> ModuleType | None:
    """Return the compiled module, or None if it was not built."""
    try:
        from tractable.native import _kernel
    except ImportError:
        return None
    return _kernel


def instruction_set() -> str | None:
    """Return the instruction set of the kernel here, ``"avx2"`` or ``"baseline"``, or None."""
    compiled = kernel()
    return None if compiled is None else str(compiled.instruction_sets()[0])

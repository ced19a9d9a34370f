"""The compiled kernel: TAGI on small dense networks, whole epochs in one call.

It computes what ``tractable.learners.methods.tagi.method`` computes with torch, for chains of
linear layers and elementwise activations in float32 on the CPU; there calling torch is the whole
cost. The torch path is the definition; ``tests/native`` hold the kernel to it.

C++17, bound with pybind11: a maintained, header-only library that needs only a compiler at build
time and nothing at run time.  torch's own C++ extensions would tie a wheel to one version of
torch; arrays cross the border as NumPy views of the tensors instead, without a copy.  Only what
says where to read (labels, the order of the rows) is copied, so that no other thread can change it
once it has been checked.

Installing without a compiler works: then ``kernel()`` is None and torch computes everything.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def kernel() -> ModuleType | None:
    """The compiled module, or None where it was not built."""
    try:
        from tractable.native import _kernel
    except ImportError:
        return None
    return _kernel


def instruction_set() -> str | None:
    """What the kernel's loops use on this machine (``"avx2"`` or ``"baseline"``)."""
    compiled = kernel()
    return None if compiled is None else str(compiled.instruction_sets()[0])

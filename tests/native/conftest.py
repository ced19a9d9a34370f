"""Skip tests without the compiled kernel, and use one thread for small tensors."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from tractable import native


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Restore the interrupt handler, which a shell disables for background processes."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expected = os.environ.get("TRACTABLE_EXPECT")
    if expected is not None:
        assert expected in str(native.__file__), f"testing {native.__file__}, not {expected}"
    if native.kernel() is None:
        reason = pytest.mark.skip(reason="the kernel was not built (no compiler)")
        for item in items:
            if "native" in item.path.parts and "without" not in item.name:
                item.add_marker(reason)

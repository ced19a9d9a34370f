"""The real data, where there is any."""

import os
from pathlib import Path

import matplotlib as mpl
import pytest

from tractable.data import store

mpl.use("Agg")


@pytest.fixture
def real_data() -> Path:
    """The folder with the real data sets, if the environment names one."""
    folder = os.environ.get(store.FOLDER)
    if not folder:
        pytest.skip(f"{store.FOLDER} does not name a folder with the real data sets")
    return Path(folder)

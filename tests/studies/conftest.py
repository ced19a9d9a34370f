"""The real data, where there is any."""

import os
from pathlib import Path

import matplotlib as mpl
import pytest

from tractable.data import download

mpl.use("Agg")


@pytest.fixture
def real_data() -> Path:
    """The folder with the real data sets, if the environment names one."""
    folder = os.environ.get(download.FOLDER)
    if not folder:
        pytest.skip(f"{download.FOLDER} does not name a folder with the real data sets")
    return Path(folder)

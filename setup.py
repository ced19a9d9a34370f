"""Builds the compiled kernel; everything else is in pyproject.toml.

The kernel is optional: without a C++ compiler the package installs all the same and learns with
torch.  ``TRACTABLE_SANITIZE=1`` builds it with the address and undefined-behaviour sanitisers,
apart from other builds (``make sanitize``).
"""

import os
import sys
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import setup

NATIVE = Path("src/tractable/native")
SANITIZE = bool(os.environ.get("TRACTABLE_SANITIZE"))

flags = [] if sys.platform == "win32" else ["-O3"]
link = []
if SANITIZE:
    link = ["-fsanitize=address,undefined"]
    # Python's own flags let integers wrap, which would hide their overflow from the sanitiser.
    flags = [*link, "-fno-sanitize-recover=undefined", "-fno-wrapv", "-O1", "-g"]

setup(
    cmdclass={"build_ext": build_ext},
    ext_modules=[
        Pybind11Extension(
            "tractable.native._kernel",
            sources=sorted(str(path) for path in NATIVE.glob("*.cpp")),
            depends=sorted(str(path) for path in NATIVE.glob("*.[hi]*")),
            cxx_std=17,
            extra_compile_args=flags,
            extra_link_args=link,
            optional=True,
        )
    ],
    options={"build": {"build_base": "build/sanitize/objects"}} if SANITIZE else {},
)

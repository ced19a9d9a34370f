"""Files: atomic writes, model files of tensors and JSON, networks as JSON, checks on reading."""

from tractable.errors import InvalidModelFile
from tractable.persistence.model_file import fitting, part, prefixed, read, write

__all__ = ["InvalidModelFile", "fitting", "part", "prefixed", "read", "write"]

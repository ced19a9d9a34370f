"""Files: atomic writes, model files of tensors and JSON, networks as JSON, checks on reading."""

from tractable.errors import InvalidModelFile
from tractable.persistence.model_file import as_invalid_file, read, under_prefix, with_prefix, write

__all__ = ["InvalidModelFile", "as_invalid_file", "read", "under_prefix", "with_prefix", "write"]

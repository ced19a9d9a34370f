"""Where ``number`` was; it is in ``tractable.report.words``."""

from tractable.report.words import number

__all__ = ["number"]

"""One module per table of the source papers.

Run with ``tractable run NAME`` or ``python -m tractable.experiments.MODULE``; see ``registry``.
"""

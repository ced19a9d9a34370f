"""One module per table of the source papers; run with ``python -m tractable.experiments.NAME``."""

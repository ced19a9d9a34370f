"""MNIST row by row with an LSTM and a transformer encoder."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study(
    "rows", "MNIST row by row: LSTM and transformer encoder", OURS, "tractable_studies.rows.run"
)

"""MNIST read row by row, by an LSTM and by an encoder."""

from tractable_studies.framework.study import OURS, Study

STUDY = Study("rows", "MNIST row by row: LSTM and encoder", OURS, "tractable_studies.rows.run")

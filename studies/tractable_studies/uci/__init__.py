"""Seven UCI regression data sets."""

from tractable_studies.framework.study import TAGI, Study

STUDY = Study(
    "uci", "Seven UCI regression data sets", f"{TAGI}, UCI table", "tractable_studies.uci.run"
)

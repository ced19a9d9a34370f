"""The seven UCI regression sets."""

from tractable_studies.framework.study import TAGI, Study

STUDY = Study("uci", "Seven UCI regression sets", f"{TAGI}, UCI table", "tractable_studies.uci.run")

"""The optimum of a function of one variable."""

from tractable_studies.framework.study import STATES, Study

STUDY = Study(
    "optimize1d",
    "Optimum of x^3 - 3x",
    f"{STATES}, table 2, figure 3",
    "tractable_studies.optimize1d.run",
)

"""Forecasts of public series, compared with published results and classical methods."""

from tractable_studies.framework.study import Study

STUDY = Study(
    "forecast",
    "ETTh1 at 96 to 720 steps, sunspots and airline passengers",
    "Zeng et al. 2023, Nie et al. 2023; experiment",
    "tractable_studies.forecast.run",
)

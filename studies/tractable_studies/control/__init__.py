"""Control with continuous actions, compared with PPO."""

from tractable_studies.framework.study import STATES, Study

STUDY = Study(
    "control",
    "Control with continuous actions",
    f"{STATES}, table 3",
    "tractable_studies.control.run",
)

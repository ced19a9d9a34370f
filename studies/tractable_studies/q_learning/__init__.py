"""Acting by values: TAGI's Q-networks beside DQN, A2C and PPO."""

from tractable_studies.framework.study import Study

STUDY = Study(
    "q-learning",
    "Acting by values, beside Stable-Baselines3",
    "Understanding Deep Learning, chapter 19",
    "tractable_studies.q_learning.run",
)

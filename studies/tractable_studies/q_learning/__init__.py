"""Q-learning with TAGI, compared with DQN, A2C and PPO."""

from tractable_studies.framework.study import Study

STUDY = Study(
    "q-learning",
    "Q-learning, compared with Stable-Baselines3",
    "Understanding Deep Learning, chapter 19",
    "tractable_studies.q_learning.run",
)

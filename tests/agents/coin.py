"""An environment whose reward depends on the current observation only."""

import gymnasium
import numpy as np


class Coin(gymnasium.Env):
    """Action 1 pays where the observation is positive, action 0 where it is negative."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    pays = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return self._see(), {}

    def _see(self):
        self.x = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.x

    def step(self, action):
        right = (self.x[0] > 0) == bool(action)
        self.left -= 1
        return self._see(), self.pays * right, False, self.left == 0, {}

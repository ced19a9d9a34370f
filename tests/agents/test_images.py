"""Agents with convolutional networks on observations that are images."""

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from tractable.agents import ActorCritic, QAgent, evaluate_policy


class BrightSide(gymnasium.Env):
    """Images of 6 x 6 pixels and two channels; action 1 is right if the right half is brighter."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 6, 6), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self._image(), {}

    def _image(self):
        self.right = bool(self.np_random.integers(2))
        image = self.np_random.integers(100, size=(2, 6, 6))
        image[:, :, 3 * self.right : 3 * self.right + 3] += 120
        return image.astype(np.uint8)

    def step(self, action):
        self.clock += 1
        reward = float(self.right == bool(action))
        return self._image(), reward, False, self.clock == 10, {}


def cnn(n_outputs):
    """Observations arrive as flat rows: the first layer restores channels, height and width."""
    return nn.Sequential(
        nn.Unflatten(1, (2, 6, 6)), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, n_outputs),
    )  # fmt: skip


def q_agent():
    return QAgent(BrightSide(), net=cnn(2), gamma=0.0, n_step=1, train_freq=32, gradient_steps=8)


def test_a_q_agent_learns_from_images(tmp_path):
    agent = q_agent().learn(384, checkpoint=tmp_path / "a")
    assert evaluate_policy(agent, BrightSide(), 5)[0] > 9  # of 10; random actions have 5
    images = np.stack([BrightSide().reset(seed=k)[0] for k in range(3)])
    assert agent.value(images).shape == (3, 2)
    again = QAgent.load(tmp_path / "a", BrightSide(), net=cnn(2))
    assert torch.equal(again.value(images).loc, agent.value(images).loc)
    assert again.learn(32).episodes == agent.learn(32).episodes


def test_an_actor_critic_learns_from_images():
    agent = ActorCritic(BrightSide(), net=cnn(2), gamma=0.0, n_steps=128, lr=1e-2).learn(1_280)
    assert evaluate_policy(agent, BrightSide(), 5)[0] > 9


def test_images_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"must have shape \(2, 6, 6\)"):
        q_agent().predict(np.zeros((6, 6, 2)))

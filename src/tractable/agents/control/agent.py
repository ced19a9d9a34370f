"""Agent for continuous actions by Bayesian inference: algorithm 2.

A policy network predicts a Gaussian over actions, from which actions are drawn.  A value network
learns q(s, a) from lambda-returns.  The policy is trained by inferring, in the value network, the
action at which dq/da = 0.  Both networks are trained by TAGI, so there is no gradient, no learning
rate and no exploration schedule: the policy's own uncertainty drives exploration and shrinks during
training.

The implementation departs from the printed algorithm in these points, because the printed version
did not learn: sigma_V is not added to the action (eq. 6); the policy's output is linear and the
*drawn* output is squashed; eq. (4), with the expected sign (see
``tractable.agents.control.policy_update``), replaces eq. (3); returns are mixed by lambda; sigma_V
(``target_std``) falls by 2 % an update to its minimum; observations and rewards are scaled by
running statistics; and the policy is regularized: saturated actions are penalized, the policy
forgets a little, and its steps have limited length.

Source: Nguyen & Goulet, "Analytically tractable hidden-states inference in Bayesian neural
networks", section 5, algorithm 2, tables 7 to 9.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from tractable.agents import serialization
from tractable.agents.base import ActionFunction, Agent, Metrics
from tractable.agents.buffers import RolloutBuffer
from tractable.agents.control.policy_update import (
    METRICS,
    PolicySnapshot,
    decay_precision,
    policy_metrics,
    policy_target,
)
from tractable.agents.control.settings import ControlSettings
from tractable.agents.envs import ObservationEncoder, box_action_space, open_environment
from tractable.agents.returns import lambda_returns
from tractable.agents.serialization import AgentFile
from tractable.gaussian import Gaussian
from tractable.learners import TAGI
from tractable.learners.methods.tagi.engines import Snapshot
from tractable.likelihoods import Normal
from tractable.nn import mlp
from tractable.persistence import validation
from tractable.persistence.model_file import Header, Tensors, under_prefix, with_prefix

Array = NDArray[np.float64]

_METRICS_EVERY = 8  # batches between two computations of the metrics


class TAGIControl(Agent):
    """Agent for environments with continuous actions, trained by TAGI.

    Args:
        env: a Gymnasium environment with a bounded ``Box`` of actions, or its name.
        seed: seed of the networks, the actions and the environment's episodes.
        **settings: see ``ControlSettings``.

    Attributes:
        policy_learner: policy network; its outputs are squashed by tanh.
        value_learner: value network of scaled observations and squashed actions.
        target_std: standard deviation of the value targets.
        normalizer: running statistics of observations and rewards.
        steps: number of environment steps so far.
        episodes: for every finished episode: the step at which it ended, its return and its
            length.
        training_log: metrics of each update, for the diagnosis of failures (see the guide on
            control).
    """

    settings_class = ControlSettings
    settings: ControlSettings

    def __init__(self, env: Any, *, seed: int = 0, **settings: Any) -> None:
        s = ControlSettings(**settings)
        env = open_environment(env)
        self.low, self.high = box_action_space(env)
        self._center, self._half_width = (self.high + self.low) / 2, (self.high - self.low) / 2
        super().__init__(
            env, s, seed=seed, encoder=ObservationEncoder(env.observation_space),
            scale_observations=s.scale_observations, scale_rewards=s.scale_rewards,
        )  # fmt: skip
        self.n_states, self.n_actions = self.encoder.n_entries, int(np.prod(self.low.shape))
        # As in the published results, without outlier rejection: the targets are exact here.
        options: dict[str, Any] = {"gain": s.gain, "robust": False}
        self.policy_learner = TAGI(  # table 7, with a linear output
            mlp(self.n_states, s.policy_hidden_layer_sizes, self.n_actions),
            Normal(1e-4, outputs=self.n_actions),
            seed=seed,
            **options,
        )
        # Table 8.  The first activation is tanh, so that the derivatives have a curvature.
        n_inputs = self.n_states + self.n_actions
        self.value_learner = TAGI(
            mlp(n_inputs, s.value_hidden_layer_sizes, 1, first_activation="tanh"),
            Normal(s.target_std),
            seed=seed + 1,
            **options,
        )
        self.target_std = s.target_std

    # --- acting ------------------------------------------------------------------------------

    @override
    def _rollout_is_complete(self, n_steps: int, n_episodes: int) -> bool:
        return n_steps >= self.settings.n_steps

    @override
    def _action_function(self) -> ActionFunction:
        policy = self.policy_learner.snapshot()

        def act(observation: Array) -> tuple[Array, Array]:
            squashed = np.tanh(self._policy_outputs(policy, observation[None])[0])
            return squashed, self._to_box(squashed)

        return act

    @override
    def _choose_actions(self, rows: Array, deterministic: bool) -> NDArray[np.float32]:
        outputs = self._policy_outputs(self.policy_learner.snapshot(), rows, deterministic)
        return self._to_box(np.tanh(outputs)).astype(np.float32)

    def _policy_outputs(self, policy: Snapshot, rows: Array, deterministic: bool = False) -> Array:
        """Return outputs of the policy at flat observations: samples, or their means."""
        mean, variance = policy(self.inputs(rows))
        z = mean.astype(np.float64)
        if not deterministic:
            z += np.sqrt(variance) * self.rng.standard_normal(z.shape)
        return z

    def _to_box(self, squashed: Array) -> Array:
        """Return squashed actions in the environment's box."""
        shape = (*squashed.shape[:-1], *self.low.shape)
        rescaled = self._center + self._half_width * squashed.reshape(shape)
        # Called once per step: np.clip takes several times as long.
        return np.minimum(np.maximum(rescaled, self.low), self.high)

    # --- training ----------------------------------------------------------------------------

    @override
    def _train(self, rollout: RolloutBuffer) -> Metrics:
        s = self.settings
        states = self.normalizer.observation(rollout.observations)
        inputs = np.concatenate([states, rollout.actions], 1).astype(np.float32)
        mean, variance = self._values(inputs)
        # Values after each step: those of the next row; at the end of a segment, those of the
        # observation after the step.
        next_mean, next_variance = np.roll(mean, -1), np.roll(variance, -1)
        ends = rollout.segment_ends()
        if ends.any():
            last = rollout.next_observations[ends]
            z = self._policy_outputs(self.policy_learner.snapshot(), last)
            next_states = self.normalizer.observation(last)
            next_inputs = np.concatenate([next_states, np.tanh(z)], 1).astype(np.float32)
            next_mean[ends], next_variance[ends] = self._values(next_inputs)
        target, target_variance = lambda_returns(
            self.normalizer.reward(rollout.rewards), next_mean, next_variance, rollout.terminated,
            ends, gamma=s.gamma, td_lambda=s.td_lambda,
        )  # fmt: skip
        network_metrics = self._train_networks(torch.from_numpy(inputs), target, target_variance)
        metrics = {
            "target_std": self.target_std,
            "target_variance": float(target.var()),
            "value_error": float(((target - mean) ** 2).mean()),
            "value_variance": float(variance.mean()),
            **network_metrics,
        }
        self.set_target_std(max(self.target_std * s.target_std_decay, s.min_target_std))
        return metrics

    def set_target_std(self, target_std: float) -> None:
        """Set the standard deviation of the value targets.

        Args:
            target_std: new standard deviation, positive, in units of the scaled rewards.
        """
        self.target_std = target_std
        assert isinstance(self.value_learner.likelihood, Normal)
        self.value_learner.likelihood.noise_mean.fill_(target_std**2)

    def _values(self, inputs: NDArray[np.float32]) -> tuple[Array, Array]:
        """Return mean and variance of q."""
        outputs = self.value_learner.outputs(torch.from_numpy(inputs), batch_size=None)
        mean, variance = outputs.moments()
        return mean[:, 0].double().numpy(), variance[:, 0].double().numpy()

    def _train_networks(self, inputs: Tensor, target: Array, variance: Array) -> Metrics:
        """Update both networks, batch by batch; return the metrics."""
        s = self.settings
        targets = Gaussian.wrap(
            torch.from_numpy(target.astype(np.float32)).unsqueeze(1),
            torch.from_numpy(variance.astype(np.float32)).unsqueeze(1),
        )
        before = None
        if s.max_kl is not None:
            states = inputs[:, : self.n_states].contiguous()
            before = PolicySnapshot.from_policy(self.policy_learner, states)
        found, certainty = [], []
        for _ in range(s.epochs):
            order = torch.from_numpy(self.rng.permutation(len(inputs)))
            for k, chosen in enumerate(order.split(s.batch_size)):
                x = inputs[chosen]
                # The rows were checked when they were collected: learn_batch instead of update.
                self.value_learner.learn_batch(x, targets[chosen], memory_rows=s.memory_rows)
                states = x[:, : self.n_states].contiguous()
                moments = self.policy_learner.outputs(states, batch_size=None).moments()
                update = policy_target(self.value_learner, states, *moments, s.saturation_penalty)
                self.policy_learner.learn_batch(states, update.target, memory_rows=s.memory_rows)
                certainty.append(update.certainty)
                if k % _METRICS_EVERY == 0:
                    found.append(policy_metrics(*moments, update))
        metrics = dict(zip(METRICS, torch.stack(found).mean(0).tolist(), strict=True))
        metrics["certainty"] = float(torch.stack(certainty).mean())
        if before is not None and s.max_kl is not None:
            metrics["kl"] = before.limit_kl(self.policy_learner, s.max_kl)
        decay_precision(self.policy_learner, s.forget_rate * metrics["certainty"])
        return metrics

    # --- files -------------------------------------------------------------------------------

    @override
    def _pack(self) -> tuple[Tensors, Header]:
        tensors: Tensors = {}
        for name, learner in (("policy", self.policy_learner), ("value", self.value_learner)):
            tensors |= with_prefix(learner.method.learnt(learner.state), f"{name}/")
        return tensors, {"target_std": self.target_std}

    @override
    @classmethod
    def _from_file(cls, env: Any, options: dict[str, Any], file: AgentFile) -> Self:
        return cls(env, **options)

    @override
    def _restore(self, file: AgentFile) -> None:
        for name, learner in (("policy", self.policy_learner), ("value", self.value_learner)):
            tensors = under_prefix(file.tensors, f"{name}/")
            validation.check_same_tensors(
                learner.method.learnt(learner.state), tensors, f"{name} network"
            )
            validation.check_numbers(tensors, learner.method.domains)
            learner.method.restore(learner.state, tensors)
            learner.fitted = self.steps > 0
        self.set_target_std(serialization.restore_std(file.header["target_std"], "target_std"))

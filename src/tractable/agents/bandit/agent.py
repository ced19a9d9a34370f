"""Contextual bandit agent: a learner that predicts rewards and a policy that chooses actions.

The input of the learner's network is a context of ``n_features`` numbers followed by the one-hot
code of the action.  The network predicts the reward of that action in that context,
``P(r|x, a, w)``.  A learner with an online method (TAGI) learns each reward once, in closed form.
Other learners store the latest rewards in a replay buffer and train on batches drawn from it
(``tractable.agents.bandit.replay``).

Source: "Weight uncertainty in neural networks" (a replication of Bayes by Backprop), section 2.7.
"""

from __future__ import annotations

import copy
import math
import operator
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from tractable.agents.bandit import serialization
from tractable.agents.bandit.history import BanditHistory
from tractable.agents.bandit.policies import BanditPolicy, Thompson, make_policy
from tractable.agents.bandit.replay import BanditReplay
from tractable.agents.episodes import checked_reset, checked_step
from tractable.errors import InvalidInput
from tractable.learners import Learner
from tractable.likelihoods import Likelihood
from tractable.likelihoods.targets import count_non_finite
from tractable.training import Progress

Callback = Callable[["Bandit", dict[str, float]], bool | None]
"""Function called with the agent and a record of the step; returning True stops the run."""


class Bandit:
    """Agent for contextual bandits.

    Args:
        learner: learner that predicts one number, the reward, from ``n_features + n_actions``
            inputs.
        policy: rule that chooses an action; default: ``Thompson()``.
        n_features: number of features of a context; 0 for a bandit without contexts.
        n_actions: number of actions, at least 2.
        replay: replay buffer; ``None`` learns every reward once.  The default ``"auto"`` is
            ``None`` if the learner's method is online (``Method.online``: TAGI), else
            ``BanditReplay()``.
        reward_scale: number by which rewards are divided before they are learned.
        memory_rows: for rewards whose distribution changes with time: approximate number of past
            rewards that the posterior depends on (``Learner.update``).  It requires a learner
            that supports forgetting (TAGI) and ``replay=None``.  Default: nothing is forgotten.
        seed: seed of the generator used by the policy and by the replay buffer.

    Attributes:
        generator: random generator; it may be replaced.
        history: steps taken by ``learn``.

    >>> import tractable as tr
    >>> net = nn.Linear(2, 1, bias=False)
    >>> agent = Bandit(tr.TAGI(net, tr.likelihoods.Normal(1.0)), n_features=0, n_actions=2)
    >>> for _ in range(100):
    ...     _ = agent.update([], 1, 3.0).update([], 0, 1.0)
    >>> agent.act([])
    1
    """

    def __init__(
        self,
        learner: Learner,
        policy: BanditPolicy | dict[str, Any] | None = None,
        *,
        n_features: int,
        n_actions: int,
        replay: BanditReplay | Literal["auto"] | None = "auto",
        reward_scale: float = 1.0,
        memory_rows: float | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be a tractable learner, got {type(learner).__name__}")
        if n_features < 0:
            raise ValueError(f"n_features must not be negative, got {n_features}")
        if n_actions < 2:
            raise ValueError(f"a bandit needs at least 2 actions, got {n_actions}")
        if not (math.isfinite(reward_scale) and reward_scale > 0):
            raise ValueError(f"reward_scale must be a positive number, got {reward_scale}")
        if replay == "auto":
            replay = None if learner.method.online else BanditReplay()
        if memory_rows is not None and not (math.isfinite(memory_rows) and memory_rows > 1):
            raise ValueError(
                f"memory_rows must be a number of rewards above 1, or None; got {memory_rows!r}"
            )
        if memory_rows is not None and replay is not None:
            raise ValueError(
                "memory_rows cannot be combined with a replay buffer, because that is the memory: "
                "set its size with replay=BanditReplay(buffer_size) instead"
            )
        self.learner = learner
        self.policy = make_policy(Thompson() if policy is None else policy)
        self.n_features, self.n_actions = n_features, n_actions
        self.replay = copy.deepcopy(replay)
        self.reward_scale = float(reward_scale)
        self.memory_rows = None if memory_rows is None else float(memory_rows)
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.history = BanditHistory()
        self.env_seed: int | None = None
        # One row per action: the context in the left columns, the one-hot code in the right ones.
        self._rows = torch.zeros(
            n_actions, n_features + n_actions, dtype=learner.dtype, device=learner.device
        )
        self._codes = self._rows[:, n_features:].fill_diagonal_(1.0)
        self._shape = self._probe()

    def _probe(self) -> torch.Size:
        """Return the output shape for one action; raise an error if the network does not fit."""
        width = self.n_features + self.n_actions
        sizes = f"{self.n_features} features and {self.n_actions} actions make {width} inputs"
        try:
            shape = self.learner.checks.output_shape(self._codes.new_zeros(1, width))
        except InvalidInput as error:
            raise ValueError(f"{sizes}: {error}") from error
        likelihood = self.learner.likelihood
        expected = likelihood.predictive(*[self._codes.new_ones(shape)] * 2).mean
        if expected.numel() != 1:
            raise ValueError(
                f"the learner must predict one number, the reward of one action; this one "
                f"predicts {expected.numel()}"
            )
        return shape

    # --- acting and learning -----------------------------------------------------------------

    def act(self, context: Any) -> int:
        """Return the action that the policy chooses in a context."""
        return self.policy.choose(self.learner, self._inputs(context), self.generator)

    def update(self, context: Any, action: int, reward: float) -> Self:
        """Learn the reward of one action in one context; return the agent."""
        number = self._action(action)
        x = self._inputs(context)[number : number + 1]
        y = self._targets(x.new_tensor([self._reward(reward)]))
        if self.replay is None:
            self.learner.learn_batch(x, y, memory_rows=self.memory_rows)
        else:
            self.replay.add(x, y)
            self.replay.train(self.learner, self.generator)
        return self

    def warm_start(self, contexts: Any, actions: Any, rewards: Any) -> Self:
        """Add past experience, for example that of random actions, and return the agent.

        With a replay buffer, the experience is only stored; learning starts with the first step.
        Without one, each row is learned once, in the given order.

        Args:
            contexts: contexts, ``[rows, n_features]``.
            actions: actions taken, ``[rows]``.
            rewards: rewards received, ``[rows]``.
        """
        rows = torch.as_tensor(contexts).to(self.learner.device, self.learner.dtype)
        chosen, y = torch.as_tensor(actions), torch.as_tensor(rewards, dtype=torch.float64)
        if rows.shape != (len(chosen), self.n_features) or y.shape != chosen.shape:
            raise ValueError(
                f"expected {self.n_features} features, an action and a reward per row; got "
                f"contexts of shape {tuple(rows.shape)}, actions of shape {tuple(chosen.shape)} "
                f"and rewards of shape {tuple(y.shape)}"
            )
        _refuse_non_finite(rows, "contexts")
        for action in chosen.unique().tolist():
            self._action(action)
        x = torch.cat([rows, self._codes[chosen]], dim=1)
        _refuse_non_finite(y, "rewards")
        targets = self._targets((y / self.reward_scale).to(self._codes))
        if self.replay is not None:
            self.replay.add(x, targets)
            return self
        for i in range(len(x)):
            self.learner.learn_batch(x[i : i + 1], targets[i : i + 1], memory_rows=self.memory_rows)
        return self

    def learn(
        self,
        env: Any,
        total_timesteps: int,
        *,
        seed: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 2_500,
    ) -> Self:
        """Act in an environment and learn, until ``total_timesteps`` steps have been taken.

        A run that was interrupted, or is to be extended, continues after its last step: the
        environment is reset with the same seed, and the actions taken so far are repeated.  They
        must give the same rewards.  The learning curve therefore equals that of an uninterrupted
        run, for any environment that is determined by its seed and the actions.
        ``agent.history = BanditHistory()`` starts a new run.

        Args:
            env: a Gymnasium environment with discrete actions; its ``info`` may hold
                ``"regret"`` and ``"oracle"`` (the best action).
            total_timesteps: length of the whole run, including the steps of earlier calls.
            seed: seed of the environment; default: drawn from the agent's generator.
            callback: function or functions called after every step with the agent and a record
                of the step (``steps``, ``reward``, ``regret``); returning True stops the run.
            progress: whether to show a progress bar with the time left; default: only in a
                terminal.
            checkpoint: file to which the agent is saved; if it exists and this agent has not
                taken a step yet, the run in it is resumed.
            checkpoint_every: number of steps between two writes of ``checkpoint``.

        Returns:
            The agent; its ``history`` holds the steps.
        """
        if total_timesteps < 1:
            raise ValueError(f"total_timesteps must be at least 1, got {total_timesteps}")
        if checkpoint_every < 1:
            raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
        if checkpoint is not None and not len(self.history) and Path(checkpoint).is_file():
            serialization.resume(self, checkpoint)
        history = self.history
        if len(history) >= total_timesteps:
            return self
        callbacks = [callback] if callable(callback) else list(callback or ())
        context = self._replay_environment(env, seed)
        with Progress(total_timesteps - len(history), repr(self.policy), progress) as bar:
            while True:
                context = self._step(env, context)
                bar.advance()
                stops = [bool(call(self, history.last_record())) for call in callbacks]
                is_last = any(stops) or len(history) >= total_timesteps
                if checkpoint is not None and (is_last or len(history) % checkpoint_every == 0):
                    self.save(checkpoint)
                if is_last:
                    return self

    def _step(self, env: Any, context: Any) -> Any:
        """Act, learn the reward, and record the step; return the next context."""
        started = time.process_time()
        context = copy.deepcopy(context)  # the next step may overwrite the environment's array
        action = self.act(context)
        number = len(self.history)
        next_context, reward, terminated, truncated, info = checked_step(env, action, number)
        self.update(context, action, reward)
        self.history.seconds += time.process_time() - started
        self.history.add(action, reward, info)
        return checked_reset(env, None, number)[0] if terminated or truncated else next_context

    def _replay_environment(self, env: Any, seed: int | None) -> Any:
        """Return the context of the next step: the first one, or that after the recorded steps."""
        if getattr(env.action_space, "n", None) != self.n_actions:
            raise ValueError(
                f"the agent has {self.n_actions} actions, the environment has {env.action_space}"
            )
        if not len(self.history):
            drawn = int(torch.randint(2**31, (), generator=self.generator))
            self.env_seed = drawn if seed is None else seed
        elif seed is not None and seed != self.env_seed:
            raise ValueError(
                f"the current run uses the environment seed {self.env_seed}, not {seed}: set "
                "agent.history = BanditHistory() to start a new run"
            )
        context, _ = checked_reset(env, self.env_seed, 0)
        steps = zip(self.history.actions, self.history.rewards, strict=True)
        for number, (action, reward) in enumerate(steps):
            context, repeated, terminated, truncated, _ = env.step(action)
            if float(repeated) != reward:
                raise ValueError(
                    f"the environment does not repeat the run: step {number} gave reward {reward}, "
                    f"now {repeated}; either (a) it is another environment, or (b) it is not "
                    "determined by its seed and the actions"
                )
            if terminated or truncated:
                context = env.reset()[0]
        return context

    # --- checking ----------------------------------------------------------------------------

    def _inputs(self, context: Any) -> Tensor:
        """Return the input rows of all actions in a context; the next call overwrites them."""
        try:
            row = torch.as_tensor(context, dtype=self._codes.dtype, device=self._codes.device)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the context must be an array of numbers: {error}") from error
        if row.shape != (self.n_features,):
            raise InvalidInput(
                f"a context must have {self.n_features} features, got shape {tuple(row.shape)}"
            )
        _refuse_non_finite(row, "the context")
        self._rows[:, : self.n_features] = row
        return self._rows

    def _action(self, action: Any) -> int:
        try:
            number = -1 if isinstance(action, bool) else operator.index(action)
        except TypeError:
            number = -1
        if not 0 <= number < self.n_actions:
            raise InvalidInput(
                f"unknown action {action!r}: actions are whole numbers from 0 to "
                f"{self.n_actions - 1}"
            )
        return number

    def _reward(self, reward: Any) -> float:
        try:
            value = float(reward)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"a reward must be one number, got {reward!r}") from error
        if not math.isfinite(value):
            raise InvalidInput(f"the reward must be finite, got {value}")
        return value / self.reward_scale

    def _targets(self, scaled: Tensor) -> Tensor:
        shape = torch.Size([len(scaled), *self._shape[1:]])
        return self.learner.likelihood.check_targets(scaled.unsqueeze(1), shape)

    # --- saving ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the agent, its replay buffer and its history to one file, atomically."""
        serialization.save(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        net: nn.Module | None = None,
        likelihood: Likelihood | None = None,
        *,
        policy: BanditPolicy | None = None,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> Bandit:
        """Read an agent that ``save`` wrote; no code in the file is executed.

        Args:
            path: path of the file.
            net: see ``Learner.load``.
            likelihood: see ``Learner.load``.
            policy: policy to use instead of the one in the file; required if that policy is a
                user-defined class that has not been imported.
            device: device of the learner.
            options: options of the learner; see ``Learner.load``.
        """
        return serialization.load(
            cls, path, net, likelihood, policy=policy, device=device, **options
        )


def _refuse_non_finite(values: Tensor, what: str) -> None:
    if count := count_non_finite(values):
        raise InvalidInput(f"{what} must be finite, got {count} NaN or infinite values")

"""Policy gradients for discrete actions: REINFORCE and actor-critic."""

from tractable.agents.policy_gradient.actor_critic import ActorCritic, ActorCriticSettings
from tractable.agents.policy_gradient.reinforce import PolicyGradient, PolicyGradientSettings

__all__ = ["ActorCritic", "ActorCriticSettings", "PolicyGradient", "PolicyGradientSettings"]

"""Deep exploration with a Q-learning agent: a reward at the end of a long sequence of actions.

Random actions reach the reward once in 64 episodes, and every step toward it has a small cost, so
a greedy agent never reaches it. The agent explores by Thompson sampling of its weights.

    python examples/12_values.py
"""

import torch

from tractable.agents import DeepSea, QAgent

SIZE, EPISODES = 6, 200


def main() -> None:
    """Train the agent and count the episodes that reach the reward."""
    torch.set_num_threads(1)
    agent = QAgent(
        DeepSea(SIZE, seed=1),
        n_critics=5,
        priority_buffer_size=40,
        buffer_size=0,
        n_step=None,
        memory_rows=None,
        hidden_layer_sizes=(32,),
        gain=4.0,
        td_lambda=0.8,
        thompson_scale=0.3,
        train_freq=SIZE,
        target_std=0.1,
        min_target_std=0.1,
        scale_rewards=False,
        scale_observations=False,
    )
    agent.learn(EPISODES * SIZE)
    found = [total > 0.5 for _, total, _ in agent.episodes]
    last = sum(found[-50:])
    print(f"reward first reached in episode {found.index(True) + 1} of {len(found)}")
    print(f"reached in {last} of the last 50 episodes; random actions: {50 / 2**SIZE:.1f}")

    assert any(found)
    assert last > 25


if __name__ == "__main__":
    main()

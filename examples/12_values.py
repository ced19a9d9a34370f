"""Acting by values with doubt: a treasure at the end of a long run of right actions.

Chance finds it once in 64 episodes, and every step towards it costs a little, so an agent that only
does what seems best never goes there.  One that acts on a draw of its weights does.

    python examples/12_values.py
"""

import torch

from tractable.agents import DeepSea, QAgent

SIZE, EPISODES = 6, 200


def main() -> None:
    """Dive with doubt, and look at what the agent then believes."""
    torch.set_num_threads(1)
    agent = QAgent(
        DeepSea(SIZE, seed=1),
        heads=5,
        surprising=40,
        replay=0,
        n_step=None,
        memory=None,
        hidden=(32,),
        gain=4.0,
        lam=0.8,
        temper=0.3,
        horizon=SIZE,
        sigma=0.1,
        sigma_min=0.1,
        scale_rewards=False,
        scale_observations=False,
    )
    agent.learn(EPISODES * SIZE)
    found = [total > 0.5 for _, total, _ in agent.episodes]
    last = sum(found[-50:])
    print(f"treasure first found in episode {found.index(True) + 1} of {len(found)}")
    print(f"found in {last} of the last 50 episodes; by chance {50 / 2**SIZE:.1f}")

    assert any(found)
    assert last > 25


if __name__ == "__main__":
    main()

"""Files with the names of earlier versions are read, and written again with the current names."""

import pytest
import torch

import tractable as tr
from tests.agents.coin import Coin
from tractable.agents import Bandit, BanditReplay, EpsilonGreedy, QAgent, TAGIControl
from tractable.persistence import model_file


def rewritten(path, change):
    """Replace a file by one whose tensors and header ``change`` has edited."""
    tensors, header = model_file.read(path)
    header.pop("format")
    model_file.write(path, *change(tensors, header))


def renamed(entries, names):
    return {names.get(key, key): value for key, value in entries.items()}


def with_prefixes(tensors, prefixes):
    found = {}
    for name, tensor in tensors.items():
        for new, old in prefixes.items():
            if name.startswith(new):
                name = old + name.removeprefix(new)
                break
        found[name] = tensor
    return found


def test_a_q_agent(tmp_path):
    agent = QAgent(
        Coin(), hidden_layer_sizes=(4,), train_freq=32, buffer_size=64, n_critics=2, double_q=True,
        priority_buffer_size=4, exploration=EpsilonGreedy(0.2),
    ).learn(64)  # fmt: skip
    agent.save(tmp_path / "a")

    def former(tensors, header):
        header["options"] = renamed(
            header["options"],
            {
                "exploration": "explore", "td_lambda": "lam", "train_freq": "horizon",
                "thompson_interval": "hold", "thompson_scale": "temper",
                "hidden_layer_sizes": "hidden", "target_std": "sigma",
                "target_std_decay": "sigma_decay", "min_target_std": "sigma_min",
                "memory_rows": "memory", "n_critics": "heads", "double_q": "double",
                "target_update_interval": "target_every", "buffer_size": "replay",
                "gradient_steps": "replays", "priority_buffer_size": "surprising",
            },
        )  # fmt: skip
        header["options"]["explore"] = {"eps": 0.2, "tau": None}
        header["training_log"] = [
            renamed(record, {"mean_reward": "reward", "target_std": "sigma"})
            for record in header["training_log"]
        ]
        header = renamed(
            header,
            {
                "critics": "heads", "target_critics": "targets", "n_updates": "horizons",
                "target_std": "sigma", "buffer_positions": "places", "thompson_seed": "held",
                "training_log": "log",
            },
        )  # fmt: skip
        tensors = renamed(
            tensors,
            {
                "replay_buffer/next_observations": "arrays/latest_reached",
                "replay_buffer/discounts": "arrays/latest_factors",
                "priority_buffer/next_observations": "arrays/surprising_reached",
                "priority_buffer/discounts": "arrays/surprising_factors",
                "priority_buffer/priorities": "arrays/surprise",
            },
        )
        prefixes = {
            "critic/": "learner/", "target_critic/": "target/", "normalizer/": "arrays/",
            "episode/": "arrays/episode_", "replay_buffer/": "arrays/latest_",
            "priority_buffer/": "arrays/surprising_",
        }  # fmt: skip
        return with_prefixes(tensors, prefixes), header

    rewritten(tmp_path / "a", former)
    again = QAgent.load(tmp_path / "a", Coin())
    assert again.settings == agent.settings
    assert again.exploration.epsilon == 0.2
    assert again.training_log == agent.training_log
    assert again.learn(32).episodes == agent.learn(32).episodes
    for one, other in zip(again.critics, agent.critics, strict=True):
        assert torch.equal(one.learner.posterior.loc, other.learner.posterior.loc)


def test_a_control_agent(tmp_path):
    sizes = {"policy_hidden_layer_sizes": (4,), "value_hidden_layer_sizes": (4,)}
    agent = TAGIControl("Pendulum-v1", n_steps=32, td_lambda=0.5, **sizes).learn(32)
    agent.save(tmp_path / "a")

    def former(tensors, header):
        header["options"] = renamed(
            header["options"],
            {
                "n_steps": "horizon", "td_lambda": "lam", "target_std": "sigma_v",
                "target_std_decay": "sigma_decay", "min_target_std": "sigma_min",
                "policy_hidden_layer_sizes": "policy_hidden", "memory_rows": "memory",
                "value_hidden_layer_sizes": "value_hidden", "saturation_penalty": "pull",
                "forget_rate": "forgetting", "max_kl": "max_step",
            },
        )  # fmt: skip
        header["training_log"] = [
            renamed(record, {"mean_reward": "reward", "target_std": "sigma_v", "kl": "step"})
            for record in header["training_log"]
        ]
        header = renamed(header, {"target_std": "sigma_v", "training_log": "log"})
        return with_prefixes(tensors, {"normalizer/": "scales/"}), header

    rewritten(tmp_path / "a", former)
    again = TAGIControl.load(tmp_path / "a")
    assert again.settings == agent.settings
    assert again.target_std == agent.target_std
    assert again.training_log[0].keys() == agent.training_log[0].keys()
    assert again.learn(32).episodes == agent.learn(32).episodes
    assert torch.equal(again.policy_learner.posterior.loc, agent.policy_learner.posterior.loc)


@pytest.mark.parametrize("replay", [None, BanditReplay(8, batch_size=4)])
def test_a_bandit(replay, tmp_path):
    learner = tr.TAGI(torch.nn.Linear(4, 1), tr.likelihoods.Normal(0.5))
    policies = ({"name": "Thompson", "n_samples": 3, "space": "outputs"}, EpsilonGreedy(0.3))
    for policy in policies:
        agent = Bandit(learner, policy, n_features=2, n_actions=2, replay=replay)
        agent.update([0.1, 0.2], 1, 0.5).save(tmp_path / "a")

        def former(tensors, header):
            agent = renamed(
                header["agent"],
                {"n_features": "features", "n_actions": "actions", "memory_rows": "memory"},
            )
            agent["policy"] = renamed(
                agent["policy"], {"n_samples": "samples", "space": "sample", "epsilon": "eps"}
            )
            if agent["replay"] is not None:
                names = {"buffer_size": "capacity", "gradient_steps": "batches"}
                agent["replay"] = renamed(agent["replay"], {**names, "train_freq": "every"})
            positions = renamed(header["replay"], {"position": "next", "n_trained": "seen"})
            return tensors, {**header, "agent": agent, "replay": positions}

        rewritten(tmp_path / "a", former)
        again = Bandit.load(tmp_path / "a")
        assert repr(again.policy) == repr(agent.policy)
        assert (again.n_features, again.n_actions) == (2, 2)
        assert [again.act([0.3, 0.4]) for _ in range(5)] == [
            agent.act([0.3, 0.4]) for _ in range(5)
        ]

"""Optional dependencies of the agents."""

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    return found.stdout


def test_tractable_does_not_need_gymnasium():
    """Without it the library imports, and the agents say which extra is missing."""
    found = run("""
        import sys
        sys.modules["gymnasium"] = None
        import tractable
        try:
            tractable.agents
        except ImportError as error:
            print(error)
    """)
    assert "pip install 'tractable[agents]'" in found


def test_a_bandit_needs_gymnasium_alone():
    """Neither MuJoCo, nor Stable-Baselines3, nor a study."""
    found = run("""
        import sys
        for name in ("mujoco", "stable_baselines3", "tractable_studies"):
            sys.modules[name] = None
        from torch import nn
        import tractable as tr
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        bandit = tr.agents.Bandit(
            tr.TAGI(net, tr.likelihoods.Normal(1.0)), tr.agents.Thompson(),
            n_features=1, n_actions=2,
        )
        print(bandit.act([0.5]) in (0, 1))
    """)
    assert found == "True\n"

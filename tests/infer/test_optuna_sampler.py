import warnings

import pytest

optuna = pytest.importorskip("optuna")

from tractable.infer.optuna import TractableSampler  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_numbers_are_proposed_and_other_parameters_sampled():
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        n = trial.suggest_int("n", 0, 8)
        trial.suggest_categorical("kind", ["a", "b"])
        return (x - 0.2) ** 2 + 10 * abs(rate - 0.01) + 0.1 * abs(n - 3)

    study = optuna.create_study(sampler=TractableSampler(seed=1, epochs=10))
    study.optimize(objective, n_trials=25)
    assert study.best_value < 0.4
    for trial in study.trials:
        assert -1 <= trial.params["x"] <= 1
        assert 1e-4 <= trial.params["rate"] <= 1e-1
        assert isinstance(trial.params["n"], int)


def test_maximising():
    study = optuna.create_study(
        direction="maximize", sampler=TractableSampler(seed=0, epochs=10, n_initial=4)
    )
    study.optimize(lambda trial: -((trial.suggest_float("x", 0, 10) - 7) ** 2), n_trials=20)
    assert study.best_value > -0.5

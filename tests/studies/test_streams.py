"""Long streams: the worlds, and a run in miniature."""

import json
import math

import pytest
import torch

from tractable_studies.streams import run as streams
from tractable_studies.streams import worlds


def test_a_stream_has_its_rows_its_truth_and_its_noise():
    batches = list(worlds.rows(worlds.sine(0.5), 1250, 8, torch.Generator().manual_seed(0)))
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert len(x) == 1250
    assert max(len(part) for part, _ in batches) == 8
    left = y - torch.sin(3 * x + 0.5)
    assert float(left.std()) == pytest.approx(worlds.NOISE, rel=0.1)
    at = torch.tensor([[0.3]])
    assert float(worlds.turning(100)(at, 25)) == pytest.approx(math.sin(0.9 + math.pi / 2))


def test_rows_to_follow_are_those_until_the_error_is_small(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST", 400)
    learner = worlds.model(worlds.NOISE, 1, 0)
    rows = streams.rows_to_follow(learner, worlds.sine(0.0), 10, seed=0)
    assert rows < 400
    assert worlds.rmse(learner, worlds.sine(0.0)) < streams.SMALL
    far = lambda x, row: 1e3 * x  # noqa: E731
    assert streams.rows_to_follow(worlds.model(worlds.NOISE, 1, 0), far, 10, seed=0) == 400


def test_a_run_in_miniature(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(streams, "LATER", {100: 1.5, 300: 1.1})
    monkeypatch.setattr(streams, "LOOKS", 2)
    monkeypatch.setattr(streams, "LONGEST", 100)
    monkeypatch.setattr(streams, "BEFORE_CHANGE", 100)
    words = ["--quick", "--updates", "200", "--rows", "1000", "--turn", "5000"]
    streams.main([*words, "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    assert set(found["metrics"]) == {"jump", "drift", "change"}
    assert len(found["comparison"]) == 2 * 2 + 2 + 2 * 2 * 2 * 4
    assert 0 < found["metrics"]["drift"]["noise known"]["coverage"] <= 1
    assert "error to a fresh model's" in capsys.readouterr().out

"""The rows stored from a loader are a uniform sample of all rows."""

import pytest
import torch

from tractable.learners.off_data import reservoir, support
from tractable.training.data import LoaderData


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("batch", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("n_kept", [1, 20, 500])
def test_rows_with_the_greatest_numbers_are_kept(batch, n_kept, seed, monkeypatch):
    """The reference draws the numbers of all rows first and sorts them once."""
    rows = torch.arange(300.0).reshape(-1, 1)
    pairs = [(part, part) for part in rows.split(batch)]
    monkeypatch.setattr(support, "max_kept_rows", lambda event: n_kept)
    monkeypatch.setattr(LoaderData, "epoch", lambda self, order: iter(pairs))
    watched = reservoir.ReservoirLoader(LoaderData(None, None, None), seed)
    for _ in range(2):  # every pass restarts
        assert len(list(watched.epoch(None))) == len(pairs)
    generator = support.support_generator(seed)
    drawn = [torch.rand(len(x), generator=generator, dtype=torch.float64) for x, _ in pairs]
    chosen = torch.cat(drawn).topk(min(n_kept, len(rows))).indices
    kept = reservoir.kept_rows(watched, seed)
    assert kept.flatten().sort().values.tolist() == rows[chosen].flatten().sort().values.tolist()

"""A short run of ``make soak``; bit flips, crafted files and races are tested elsewhere."""

from tests.soak import histories, kills


def test_random_histories():
    tally = histories.run(2.0, seed=1)
    assert tally["learnt"] > 20


def test_resuming_a_killed_run_is_bit_for_bit_identical():
    tally = kills.run(0.0, seed=1, kinds=["tagi"], most=1)
    assert tally["kills"] == 1

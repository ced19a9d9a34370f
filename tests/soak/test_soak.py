"""A little of what ``make soak`` does for longer; flips, crafted files and races are elsewhere."""

from tests.soak import histories, kills


def test_random_histories():
    tally = histories.run(2.0, seed=1)
    assert tally["learnt"] > 20


def test_a_killed_run_goes_on_to_the_same_bits():
    tally = kills.run(0.0, seed=1, kinds=["tagi"], most=1)
    assert tally["kills"] == 1

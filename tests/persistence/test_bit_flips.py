"""A file with one flipped bit loads equally or is refused (more cases in ``tests/soak``)."""

from itertools import islice

import pytest

from tests.persistence import flips
from tests.persistence.kinds import KINDS
from tractable.persistence import model_file


def test_three_hundred_flips_in_files_of_every_kind(tmp_path):
    found = flips.tally(islice(flips.outcomes(KINDS, tmp_path, seed=0), 300))
    assert found["refused"] > 250


@pytest.mark.parametrize("part", ["tensors", "checksum"])
def test_a_flip_is_noticed_by_the_checksum(part, tmp_path):
    path = flips.write_good("tagi", tmp_path / "model.tr")
    content = path.read_bytes()
    place = len(content) - 3
    if part == "checksum":
        place = content.index(b'checksum\\": \\"') + 20
    path.write_bytes(flips.flipped(content, 8 * place + 1))
    with pytest.raises(model_file.InvalidModelFile, match="damaged: its checksum"):
        KINDS["tagi"].load(path)


def test_the_tally_notices_other_numbers():
    with pytest.raises(AssertionError, match="other numbers"):
        flips.tally(["refused", "tagi, bit 3: other numbers"])

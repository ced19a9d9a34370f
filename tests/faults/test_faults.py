"""All planted faults still apply, and the machinery that plants them finds an obvious one."""

from pathlib import Path

import pytest

from tests.faults.__main__ import find
from tests.faults.catalog import FAULTS, SUITES, Fault
from tests.faults.trial import PACKAGE, ROOT, Scratch


def test_every_fault_applies_to_one_place():
    stale = []
    for fault in FAULTS:
        path = ROOT / PACKAGE / fault.file
        times = path.read_text().count(fault.old) if path.is_file() else 0
        if times != 1:
            stale.append(f"{fault.name}: {fault.old!r} occurs {times} times")
    assert not stale, "\n".join(stale)


def test_every_fault_names_test_files_that_exist():
    named = [f"tests/{t.split('::')[0]}" for fault in FAULTS for t in fault.tests.split()]
    named += [f"tests/{name}" for suite in SUITES.values() for name in suite]
    missing = {name for name in named if not (ROOT / name).exists()}
    assert not missing


def test_faults_differ_and_cover_every_subpackage():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    for subpackage in SUITES:
        assert sum(fault.subpackage == subpackage for fault in FAULTS) >= 8


@pytest.mark.parametrize("file", sorted({f.file for f in FAULTS if f.file.endswith(".py")}))
def test_faulty_files_compile(file):
    text = (ROOT / PACKAGE / file).read_text()
    for fault in FAULTS:
        if fault.file == file:
            compile(text.replace(fault.old, fault.new), file, "exec")


def test_a_fault_is_found_in_the_copy_only(tmp_path: Path):
    scratch = Scratch(tmp_path / "copy")
    pool = ("moments/pool.py", "moments/test_pool.py")
    before = (ROOT / PACKAGE / pool[0]).read_text()
    fault = Fault(*pool, "sum in place of a difference", "(end - start)", "(end + start)")
    assert "test_pool.py::" in find(scratch, fault, 60)["found_by"]
    assert (ROOT / PACKAGE / pool[0]).read_text() == before == scratch.text(pool[0])
    with pytest.raises(RuntimeError, match="unchanged copy"):
        scratch.check_collection(["tests/moments/test_missing.py"])

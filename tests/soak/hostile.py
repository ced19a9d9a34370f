"""Arguments that the kernel must refuse, or at least survive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.soak.kernel_calls import Arguments, Call, Rng, compiled, constructor

LEARNT = ["loc", "variance", "noise_mean", "noise_variance"]
NUMBERS = [float("nan"), float("inf"), float("-inf"), 3.4e38, -3.4e38, 1e25, 1e-45]
INDICES = [-1, -(2**63), 2**63 - 1, 2**62, 10**13, 2**32]


@dataclass(frozen=True)
class Attack:
    """A modification of a call.

    Attributes:
        name: for the report.
        effect: ``"harmless"`` calls must be answered, ``"refused"`` ones must raise, and ``"any"``
            may do either, as long as nothing breaks.
        keeps_state_sound: whether what is learnt must stay finite.
        spoils: the array that another thread writes to during the call.
    """

    name: str
    effect: Literal["harmless", "refused", "any"]
    keeps_state_sound: bool = True
    spoils: str = ""

    @contextmanager
    def during(self, arguments: Arguments) -> Iterator[None]:
        """Surround the call with what other threads do."""
        if not self.spoils:
            yield
            return
        array, kept, over = arguments[self.spoils], arguments[self.spoils].copy(), []

        def write() -> None:
            while not over:
                array[:] = 10**13
                array[:] = kept

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            over.append(True)
            writer.join()
            array[:] = kept


HARMLESS = Attack("nothing", "harmless")
Maker = Callable[[Rng, Call], Attack | None]  # None where the call offers no place for it


def arrays(call: Call, names: list[str] | None = None) -> list[str]:
    """Which arguments are arrays; the noise of a tree is nobody's."""
    idle = ["noise_mean", "noise_variance"] if call.network.tree else []
    return [
        name
        for name, value in call.arguments.items()
        if isinstance(value, np.ndarray) and name not in idle and (names is None or name in names)
    ]


def pick(rng: Rng, names: list[str]) -> str | None:
    """One of them, if there are any."""
    return str(rng.choice(names)) if names else None


def size(rng: Rng, call: Call) -> Attack | None:
    """An array with an element too many, or one too few, or in another shape."""
    name = pick(rng, arrays(call))
    if name is None:
        return None
    array = call.arguments[name]
    if name == "x":
        extra = np.zeros((len(array), 1), array.dtype)
        options = [np.hstack([array, extra]), array[:, :-1].copy(), array.ravel(), array[None]]
    else:
        options = [np.append(array, array.dtype.type(0))]
        if array.size:
            options += [array.ravel()[:-1].copy(), array[:0]]
    call.arguments[name] = options[int(rng.integers(len(options)))]
    return Attack(f"size of {name}", "refused")


def dtype(rng: Rng, call: Call) -> Attack | None:
    """Numbers of another kind, or in the order of another machine."""
    name = pick(rng, arrays(call))
    if name is None:
        return None
    array = call.arguments[name]
    others = ["f2", "f4", "f8", "i4", "i8", "u8", "c8", "?", "O", "S4", array.dtype.newbyteorder()]
    other = np.dtype(others[int(rng.integers(len(others)))])
    if other == array.dtype:
        return None
    call.arguments[name] = array.astype(other)
    return Attack(f"dtype {other} of {name}", "refused")


def layout(rng: Rng, call: Call) -> Attack | None:
    """Memory with gaps, or off its alignment, or that must not be written to."""
    name = pick(rng, arrays(call))
    if name is None or not call.arguments[name].size:
        return None
    array = call.arguments[name]
    way = str(rng.choice(["gaps", "shifted", "locked"]))
    if way == "gaps":
        array = np.repeat(array, 2, axis=-1)[..., ::2]
        if array.flags.c_contiguous:
            return None
    elif way == "shifted":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        raw[:] = np.frombuffer(array.tobytes(), np.uint8)
        array = raw.view(array.dtype).reshape(array.shape)
    elif name in LEARNT:
        array.setflags(write=False)
    else:
        return None
    call.arguments[name] = array
    return Attack(f"{way} {name}", "refused")


def nonsense(rng: Rng, call: Call) -> Attack | None:
    """Something else altogether in the place of an array."""
    name = pick(rng, arrays(call))
    if name is None:
        return None
    others: list[Any] = ["abc", [1.0, 2.0], {}, 3, object(), np.float32(1), b"", np.zeros((), "u1")]
    call.arguments[name] = others[int(rng.integers(len(others)))]
    return Attack(f"nonsense for {name}", "refused")


def indices(rng: Rng, call: Call) -> Attack | None:
    """A label or a row that does not exist."""
    name = pick(rng, arrays(call, ["labels", "order"]))
    if name is None or not call.arguments[name].size:
        return None
    array = call.arguments[name]
    end = len(array) if name == "order" else len(call.network.arguments["paths"])
    options = [*INDICES, end]
    array[int(rng.integers(array.size))] = options[int(rng.integers(len(options)))]
    return Attack(f"{name} out of range", "refused")


def kinds(rng: Rng, call: Call) -> Attack | None:
    """Targets of the other kind of likelihood, or none, or both."""
    if call.name != "learn":
        return None
    rows = len(call.arguments["x"])
    numbers = np.zeros((rows, call.network.outputs), np.float32)
    labels = np.zeros(rows, np.int64)
    both = rng.random() < 0.3
    if call.network.tree:
        call.arguments |= {"y": numbers} if both else {"y": numbers, "labels": None}
    else:
        call.arguments |= {"labels": labels} if both else {"labels": labels, "y": None}
    return Attack("the other kind of targets", "refused")


def scalars(rng: Rng, call: Call) -> Attack | None:
    """Numbers and lists that no call can have."""
    options: dict[str, list[Any]] = {
        "learn": [
            ("batch_size", 0), ("batch_size", -1), ("batch_size", 2**30 + 1),
            ("batch_size", 2**70), ("batch_size", 1.5), ("forget", "much"), ("forget", None),
            ("priors", []), ("priors", [1.0] * 99), ("priors", None), ("priors", ["a"]),
            ("progress", 3),
        ],
        "draw": [
            ("samples", 0), ("samples", -1), ("samples", 2**31 - 1), ("samples", 2**40),
            ("samples", 2.5), ("samples", None),
        ],
    }  # fmt: skip
    if call.name not in options or not len(call.arguments["x"]):
        return None
    choices = options[call.name]
    name, value = choices[int(rng.integers(len(choices)))]
    call.arguments[name] = value
    return Attack(f"{name} {value!r}", "refused")


def many_rows(rng: Rng, call: Call) -> Attack | None:
    """More rows than can be drawn together."""
    if call.name != "draw" or call.network.inputs > 5:
        return None
    rows = int(rng.choice([46_341, 50_000, 65_536, 92_682]))
    call.arguments["x"] = np.zeros((rows, call.network.inputs), np.float32)
    return Attack(f"{rows} rows", "refused")


def data(rng: Rng, call: Call) -> Attack | None:
    """Inputs or targets that are not finite, or nearly so."""
    name = pick(rng, arrays(call, ["x", "y", "x_variance", "y_variance", "normals"]))
    if name is None or not call.arguments[name].size:
        return None
    flat = call.arguments[name].reshape(-1)
    value = np.float32(NUMBERS[int(rng.integers(len(NUMBERS)))])
    positive = name.endswith("variance")
    flat[int(rng.integers(flat.size))] = abs(value) if positive else value
    return Attack(f"{value} in {name}", "any")


def state(rng: Rng, call: Call) -> Attack | None:
    """Replace parameters, priors or noises by invalid values, with arbitrary results."""
    if call.name == "learn" and rng.random() < 0.4:
        if rng.random() < 0.5:
            call.arguments["forget"] = float(rng.choice([*NUMBERS, -1.0, 2.0]))
        else:
            prior = float(rng.choice([*NUMBERS, 0.0, -1.0]))
            call.arguments["priors"] = [prior] * call.network.tensors
        return Attack("impossible settings", "any", keeps_state_sound=False)
    name = pick(rng, arrays(call, [*LEARNT, "x_variance", "y_variance"]))
    if name is None or not call.arguments[name].size:
        return None
    flat = call.arguments[name].reshape(-1)
    flat[int(rng.integers(flat.size))] = rng.choice([*NUMBERS, 0.0, -1.0])
    return Attack(f"impossible {name}", "any", keeps_state_sound=False)


def race(rng: Rng, call: Call) -> Attack | None:
    """Another thread that writes to the indices."""
    name = pick(rng, arrays(call, ["labels", "order"]))
    if name is None:
        return None
    return Attack(f"a race for {name}", "any", spoils=name)


MAKERS: list[Maker] = [
    size, dtype, layout, nonsense, indices, kinds, scalars, many_rows, data, data, state, race,
]  # fmt: skip


def attack(rng: Rng, call: Call) -> Attack:
    """Something hostile, done to the call."""
    while True:
        made = MAKERS[int(rng.integers(len(MAKERS)))](rng, call)
        if made is not None:
            return made


def construct(rng: Rng) -> str:
    """A learner that cannot be made."""
    arguments = constructor(rng)
    changes: list[Arguments] = [
        {"layers": []}, {"layers": [(0, 1, True, [])]}, {"layers": [(1, -1, True, [])]},
        {"layers": [(2, 3, True, []), (4, 1, True, [])]}, {"layers": [(2**31, 1, True, [])]},
        {"layers": [(2**28 + 1, 1, True, [])]}, {"layers": [(1, 2**31 - 1, True, [])]},
        {"layers": [(2**28, 2**28, False, [])] * 300}, {"layers": None}, {"before": ["relu"]},
        {"before": [("gelu", 0.0)]}, {"likelihood": "gamma"}, {"rule": "x"},
        {"instructions": "avx512"}, {"tree_noise": None}, {"tree_noise": "a"},
        {"paths": np.zeros((3, 99), np.int8)}, {"paths": np.zeros(3, np.int8)},
        {"paths": np.zeros((3, 2), np.int64)}, {"paths": "abc"},
    ]  # fmt: skip
    change = changes[int(rng.integers(len(changes)))]
    try:
        compiled().Learner(**(arguments | change))
    except (TypeError, ValueError):
        return "not made"
    raise AssertionError(f"a learner was made of {change}")

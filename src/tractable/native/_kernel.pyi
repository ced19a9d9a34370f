from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Activation = tuple[str, float]
Layer = tuple[int, int, bool, Sequence[Activation]]

TOGETHER: int

def instruction_sets() -> list[str]: ...
def beyond(
    x: NDArray[Any],
    kept: NDArray[Any],
    count: int,
    weights: NDArray[Any] | None,
    reach: float,
    near: float,
    share: float,
) -> tuple[NDArray[Any], NDArray[Any] | None]: ...

class Learner:
    def __init__(
        self,
        *,
        before: Sequence[Activation],
        layers: Sequence[Layer],
        likelihood: str,
        tree_noise: float,
        paths: NDArray[np.int8] | None,
        rule: str,
        instructions: str = "",
        limit: bool = False,
        gate: bool = False,
    ) -> None: ...
    @property
    def instructions(self) -> str: ...
    def learn(
        self,
        loc: NDArray[np.float32],
        variance: NDArray[np.float32],
        priors: Sequence[float],
        noise_mean: NDArray[np.float64],
        noise_variance: NDArray[np.float64],
        x: NDArray[np.float32],
        x_variance: NDArray[np.float32] | None,
        y: NDArray[np.float32] | None,
        y_variance: NDArray[np.float32] | None,
        labels: NDArray[np.int64] | None,
        order: NDArray[np.int64] | None,
        batch_size: int,
        forget: float,
        progress: Callable[[int], object] | None,
        surprise: NDArray[np.float64] | None = None,
        surprises: NDArray[np.float64] | None = None,
        memory: float = 0.0,
    ) -> int: ...
    def predict(
        self,
        loc: NDArray[np.float32],
        variance: NDArray[np.float32],
        x: NDArray[np.float32],
        x_variance: NDArray[np.float32] | None,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
    @property
    def gives_derivatives(self) -> bool: ...
    def derivatives(
        self,
        loc: NDArray[np.float32],
        variance: NDArray[np.float32],
        x: NDArray[np.float32],
        x_variance: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]: ...
    @property
    def units(self) -> int: ...
    def draw(
        self,
        loc: NDArray[np.float32],
        variance: NDArray[np.float32],
        x: NDArray[np.float32],
        samples: int,
        normals: NDArray[np.float32],
    ) -> NDArray[np.float32]: ...

class Snapshot:
    def __init__(
        self, learner: Learner, loc: NDArray[np.float32], variance: NDArray[np.float32]
    ) -> None: ...
    def predict(
        self, x: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...

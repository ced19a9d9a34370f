"""Mean squared and absolute errors of ETTh1 that were published, on the standard split.

DLinear and NLinear: the tables in the repository of A. Zeng et al., "Are transformers effective for
time series forecasting?" (2023), LTSF-Benchmark.md.  PatchTST/64: Y. Nie et al., "A time series is
worth 64 words" (2023), quoted from memory, not checked against the paper.
"""

Pair = tuple[float, float]

OT: dict[str, dict[int, Pair]] = {
    "DLinear": {96: (0.053, 0.177), 192: (0.069, 0.204), 336: (0.081, 0.226), 720: (0.080, 0.226)},
    "NLinear": {96: (0.056, 0.180), 192: (0.071, 0.204), 336: (0.098, 0.244), 720: (0.189, 0.359)},
    "PatchTST": {96: (0.059, 0.189), 192: (0.074, 0.215), 336: (0.076, 0.220), 720: (0.087, 0.236)},
}
ALL: dict[str, dict[int, Pair]] = {
    "DLinear": {96: (0.374, 0.394), 192: (0.408, 0.415), 336: (0.429, 0.427), 720: (0.440, 0.453)},
    "NLinear": {96: (0.375, 0.399), 192: (0.405, 0.416), 336: (0.439, 0.443), 720: (0.472, 0.490)},
    "PatchTST": {96: (0.370, 0.400), 192: (0.413, 0.429), 336: (0.422, 0.440), 720: (0.447, 0.468)},
}

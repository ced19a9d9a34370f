"""scikit-learn estimators: ``fit`` and ``predict``, with error bars (extra ``sklearn``).

================  =================  ====================================================
regression        classification     weights
================  =================  ====================================================
TAGIRegressor     TAGIClassifier     Gaussian, in closed form; truly online
BBBRegressor      BBBClassifier      Gaussian, by the gradient of the ELBO
BackpropRegressor BackpropClassifier one set of them, by plain gradients
LaplaceRegressor  LaplaceClassifier  the same, and a Gaussian around them
================  =================  ====================================================

They stand in pipelines, grid searches and cross-validation like any other estimator.
"""

try:
    from sklearn.utils.validation import validate_data as _needed  # noqa: F401  (since 1.6)
except ImportError as error:
    raise ImportError(
        "tractable.sklearn needs scikit-learn 1.6 or newer: pip install 'tractable[sklearn]'"
    ) from error

from tractable.sklearn.bbb import BBBClassifier, BBBRegressor
from tractable.sklearn.laplace import LaplaceClassifier, LaplaceRegressor
from tractable.sklearn.net import BackpropClassifier, BackpropRegressor
from tractable.sklearn.tagi import TAGIClassifier, TAGIRegressor

__all__ = [
    "BBBClassifier",
    "BBBRegressor",
    "BackpropClassifier",
    "BackpropRegressor",
    "LaplaceClassifier",
    "LaplaceRegressor",
    "TAGIClassifier",
    "TAGIRegressor",
]

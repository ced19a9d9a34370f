"""Estimators with the interface of scikit-learn (extra ``sklearn``).

=================  ==================  ======================================================
regression         classification      posterior of the weights
=================  ==================  ======================================================
TAGIRegressor      TAGIClassifier      Gaussian, in closed form; online updates
BBBRegressor       BBBClassifier       Gaussian, by the gradient of the evidence lower bound
BackpropRegressor  BackpropClassifier  none: one set of weights, by gradients
LaplaceRegressor   LaplaceClassifier   Gaussian around the weights found by gradients
=================  ==================  ======================================================

They can be used in pipelines, grid searches and cross-validation like other estimators.
"""

try:
    from sklearn.utils.validation import validate_data as _validate_data  # noqa: F401  (since 1.6)
except ImportError as error:
    raise ImportError(
        "tractable.sklearn needs scikit-learn 1.6 or newer: pip install 'tractable[sklearn]'"
    ) from error

from tractable.sklearn.backprop import BackpropClassifier, BackpropRegressor
from tractable.sklearn.bbb import BBBClassifier, BBBRegressor
from tractable.sklearn.laplace import LaplaceClassifier, LaplaceRegressor
from tractable.sklearn.tagi import TAGIClassifier, TAGIRegressor

__all__ = [
    "TAGIRegressor",
    "TAGIClassifier",
    "BBBRegressor",
    "BBBClassifier",
    "BackpropRegressor",
    "BackpropClassifier",
    "LaplaceRegressor",
    "LaplaceClassifier",
]

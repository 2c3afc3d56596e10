"""Which feature map an argument means, and fitting one to pairs."""

from typing import Any

from sklearn.base import clone

from ..core import Array
from ..kernels import Kernel, fitted_kernel
from .base import FeatureMap
from .landmarks import Nystroem


def as_feature_map(features) -> FeatureMap:
    """A fresh, unfitted copy of the feature map asked for; None is Nyström to tolerance."""
    if features is None:
        return Nystroem()
    if isinstance(features, FeatureMap):
        return clone(features)
    raise ValueError(
        f"features is {features!r}; None or a kernelmean feature map (Nystroem, Exact, "
        "RandomFourier, Neural) is needed"
    )


def learns_from_pairs(features) -> bool:
    """Whether the features asked for are learned for X, from what is to be predicted."""
    return isinstance(features, FeatureMap) and features.learns_from_pairs


def refuse_lengthscale(features) -> None:
    """Learned features have no lengthscale to tune."""
    if learns_from_pairs(features):
        raise ValueError(
            "tune_lengthscale is True, but learned features have no lengthscale: leave it False"
        )


def as_target_map(features) -> FeatureMap:
    """The map of the variable predicted: features learned for the observation do not fit it."""
    return Nystroem() if learns_from_pairs(features) else as_feature_map(features)


def kernel_of(asked, points, names: list[str] | None, argument: str) -> Kernel:
    """The kernel of one side of pairs, `kernel_x` for "X"; by name in units of its columns."""
    name = f"kernel_{argument.lower()}"
    return fitted_kernel(asked, points, names=names, name=name, in_units=True, argument=argument)


def fit_pairs(features, X, kernel, Z, kernel_z) -> tuple[FeatureMap, Array]:
    """The map of X where Z is to be predicted from it, and the coordinates of the rows of X.

    A map that learns from pairs is trained on them, unless it was trained before.
    """
    own: Any = as_feature_map(features)
    if own.learns_from_pairs and not own.trained:
        own.fit_pairs(X, Z, kernel_z)
    return own, own.fit_transform(X, kernel)

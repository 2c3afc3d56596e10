"""How a hidden chain is learned: the options of EM."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.parameters import Options, Rule, count, each, either, optional, positive


def several(rule: Rule, needed: str, *counts: int) -> Rule:
    """As many numbers as `needed` says, each as the rule says."""

    def numbers(value, name: str) -> None:
        if np.ndim(value) > 1 or np.size(value) not in counts:
            raise ValueError(f"{name} is {value!r}; {needed} are needed")
        each(rule)(tuple(value) if np.ndim(value) else value, name)

    return numbers


@dataclass(frozen=True, repr=False)
class EM(Options):
    """How the laws of `KernelHMM` and `KernelStateSpace` are learned; None is the model's default.

    Parameters
    ----------
    n_init : int, optional
        Starts of EM. In `KernelHMM` (12) the spectral fit, and random ones, some of them of states
        that last. In `KernelStateSpace` (3) pairings of observations and nodes: of y itself, and of
        averages over more and more rows (at most four).
    max_iter : int, optional
        Most iterations of EM (200 and 60); of L-BFGS where `KernelStateSpace` does without EM.
    tol : float, optional
        EM stops when the mean log-likelihood of a row rises by less (1e-5 and 1e-4).
    directions : "auto" or int
        Number of canonical variates that emission densities are taken of: functions of y that are
        uncorrelated, of variance one, and tell most of the next observation. 0 is none: densities
        of y as it is. "auto" is 0 for at most three columns that vary and a kernel that can smooth
        them; otherwise as many as there are correlations beyond noise, three at least. In
        `KernelHMM` it is 0 for up to twenty columns, too, where the past tells more of rows held
        out then (and no bandwidth is given).
    guard : float or (float, float), optional
        Of `KernelStateSpace`: rows that a simple model counts as in the emission laws, and in the
        transitions, in all (divided by the nodes at each): y linear in x with noise that does not
        depend on it, and x' normal around a smooth function of x. It is what is left where no data
        have been; more of it suits short series and nearly linear ones. In the emission laws it
        counts 10 or 100 times as much if that makes held-out rows likelier (unless `bandwidth` is
        given). None is (200, 1000).
    penalty : (float, float), optional
        Of `KernelStateSpace`: λ₁ and λ₂ of the moments, (1, 1) for None; with `refine=True` they
        matter for one of the starts only.
    features : FeatureMap, optional
        Of `KernelStateSpace`: coordinates of the observations in the moments and in kernel Bayes'
        rule; None is Nyström with at most 300 landmarks.

    Examples
    --------
    >>> import kernelmean as km
    >>> km.KernelHMM(2, em=km.EM(n_init=4, max_iter=50))
    KernelHMM(em=EM(n_init=4, max_iter=50), n_components=2)
    """

    n_init: int | None = None
    max_iter: int | None = None
    tol: float | None = None
    directions: int | str = "auto"
    guard: float | tuple[float, ...] | None = None
    penalty: tuple[float, float] | None = None
    features: Any = None

    ALLOWED: ClassVar = {
        "n_init": optional(count()),
        "max_iter": optional(count()),
        "tol": optional(positive()),
        "directions": either(count(minimum=0), "auto"),
        "guard": optional(several(positive(), "one or two numbers", 1, 2)),
        "penalty": optional(several(positive(zero=True), "two numbers", 2)),
    }


def as_em(em: Any) -> Any:
    """Options of EM; None is the defaults."""
    return EM() if em is None else em

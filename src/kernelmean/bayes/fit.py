"""How kernel Bayes' rule is fitted: coordinates of latents and of observations, from pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core import Array, Rows, Saveable, arrays
from ..core.moments import Order, how_often
from ..core.stages import stage
from ..densities.bending import Bent, long_tails
from ..features.base import FeatureMap
from ..features.choose import as_target_map, fit_pairs, kernel_of
from ..kernels import Kernel
from ..regression.leave_one_out import losses_of_kernels, tuned
from ..regression.support import Support

REACH = 0.5  # widths of the box of observations, beyond it: kernels still tell more than its edge


@dataclass(frozen=True)
class PairsFit(Saveable):
    """What was learned of pairs; a density learns of observations in its own way.

    Attributes
    ----------
    points, seen : arrays of shape (n, d_z), (n, d_x)
        Latents and observations, as they came.
    order : Order
        That of the rows of Q and Phi.
    features_z, features_x : FeatureMap
    Q, Phi : arrays of shape (n, r_z), (n, r_x)
        Coordinates of latents and of observations.
    second_z : array of shape (r_z, r_z)
        The mean of qqᵀ over all pairs.
    support : Support or None
        Where observations may be; a file of version 1 has none.
    copies : array of shape (n,) or None
        How often each pair is there.
    of_some : bool
        Whether these pairs are some of many that are elsewhere.
    rows : Rows or None
        Where these are; not in files, nor in pickles.
    found : dict
        What was sought for the last two priors; in files are sums over rows elsewhere alone.
    """

    points: Array
    features_z: FeatureMap
    Q: Array
    second_z: Array
    order: Order = field(default=Order())
    support: Support | None = None
    of_some: bool = False
    features_x: Any = None
    Phi: Any = None
    copies: np.ndarray | None = None
    seen: Array | None = None
    rows: Rows | None = None
    found: dict[str, tuple] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rows": None, "found": self.found if self.of_some else {}}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rows": None}

    @property
    def latents(self) -> Array:
        """Sorted, as coordinates are."""
        return self.order.sorted(self.points)

    def once(self, name: str, key: tuple, search: Callable[[], Any]) -> Any:
        """What a search finds, sought anew only where the key is not one of the last two."""
        names = name, f"{name}, before"
        last = [self.found[at] for at in names if at in self.found]
        found = next((pair for pair in last if _same(pair[0], key)), None) or (key, search())
        last = [found, *(pair for pair in last if pair is not found)]
        self.found.update(zip(names, last, strict=False))
        return found[1]


def _same(known: tuple, key: tuple) -> bool:
    pairs = zip(known, key, strict=True)
    return all(np.array_equal(arrays.to_numpy(a), arrays.to_numpy(b)) for a, b in pairs)


@stage("latents")
def learn_latents(asked: Any, names: list[str] | None, X, Z, rows: Rows | None) -> PairsFit:
    """Coordinates of Z; the pairs are some of `rows`, if there are any."""
    order = Order.of(X, Z)
    latents, features = order.sorted(Z), as_target_map(asked.features)
    kernel = kernel_of(asked.kernel_z, latents, names, "Z")
    Q = features.fit_transform(latents, kernel)
    order.renumber(features)
    if rows is None:
        box, second = Support.of(X), Q.T @ Q / Q.shape[0]
    else:
        box = rows.in_slices(Support.of, 1)
        second = rows.partial("zz", z=(1, features)).mean("zz")
    known = order, box.widened(REACH), rows is not None
    return PairsFit(Z, features, Q, second, *known, rows=rows)


@stage("observations")
def learn_observations(asked: Any, names: list[str] | None, X, fit: PairsFit) -> PairsFit:
    """With coordinates in which latents are regressed on X."""
    seen = fit.order.sorted(X)
    copies = how_often(seen, fit.latents)
    kernel = bent_or_not(asked, names, seen, fit.Q, copies)
    if asked.tune_lengthscale:
        kernel = tuned(kernel, seen, fit.features_z.kernel_, fit.latents, fit.Q, copies)
    features, Phi = fit_pairs(asked.features, seen, kernel, fit.latents, fit.features_z.kernel_)
    fit.order.renumber(features)
    return replace(fit, features_x=features, Phi=Phi, copies=copies, seen=X)


def bent_or_not(asked: Any, names: list[str] | None, X, Q, copies) -> Kernel:
    """By name, on a bent scale of columns with long tails, if latents are nearer then."""
    kernel = kernel_of(asked.kernel_x, X, names, "X")
    by_name = isinstance(asked.kernel_x, str) and asked.features is None and kernel.boxed
    bend = long_tails(arrays.to_numpy(X)) if by_name else None
    if bend is None:
        return kernel
    bent = Bent(kernel_of(asked.kernel_x, bend(X), names, "X"), bend)
    losses = losses_of_kernels(X, [Q], copies=copies)
    return bent if losses(bent) < losses(kernel) else kernel

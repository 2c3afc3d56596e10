"""What kernel Bayes' rule needs of a prior: its ratio to the latents of the pairs, their shares."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from sklearn.base import clone

from ..core import Array, arrays, checks, solves
from ..embedding.embedding import MeanEmbedding, as_one_embedding
from ..features.base import FeatureMap
from ..features.choose import as_target_map
from ..kernels import Kernel, is_tuned
from .density_ratio import DensityRatio
from .fit import PairsFit
from .left_out import RatioLeftOut, sampled_equally

EVEN = 0.9  # effective share of the pairs from which a prior is about that of their latents
APART = 3.0  # standard deviations beyond which two samples are of different laws
COVERED = 0.1  # of a prior, below which it is said
LEAST = 1e-12  # the sum of shares, near one, below which a posterior is rounding


class Ratio(NamedTuple):
    """Of a prior to the latents of the pairs.

    Attributes
    ----------
    prior : MeanEmbedding
    at : callable
        r of latents (n, d).
    shares : array of shape (n,)
        β_i = r(z_i)/n of the pairs, near one in sum.
    reg : float or None
        η, where the ratio was learned.
    """

    prior: MeanEmbedding
    at: Callable[[Array], Array]
    shares: Array
    reg: float | None

    def floored(self, z) -> Array:
        """max(r, 0)."""
        return arrays.namespace(z).clip(self.at(z), 0.0, None)


def ratio_of(prior, fit: PairsFit, asked: Any) -> Ratio:
    """By the `ratio` and `reg_prior` that are asked for; None is the law of the latents.

    Where nothing is asked for, and the prior is a sample, a `DensityRatio` chooses for itself.
    """
    (n, d), given = fit.points.shape, asked.ratio
    kernel = fit.features_z.kernel_
    m = MeanEmbedding(fit.latents, kernel=kernel) if prior is None else prior
    m = as_one_embedding(m, kernel, "prior", d, "the training latents", asked.latent_names_)
    U, eta, key = fit.features_z.transform(m.points), None, (m.points, m.weights)
    free = given is None and asked.reg_prior is None and is_tuned(asked.kernel_z)
    if free and prior is not None and fit.rows is None and sampled_equally(m.weights):
        given = DensityRatio(asked.kernel_z, features=as_target_map(asked.features))
    if given is None:
        eta = asked.reg_prior
        if eta is None:
            left_out = partial(RatioLeftOut, fit.Q, fit.second_z, U, m.weights)
            eta = fit.once("reg_prior", key, lambda: left_out().best())
        coefficients = solves.ridge(fit.second_z, eta).solve(m.weights @ U)
        at: Callable = partial(_linear, fit.features_z, coefficients)
        beta = fit.Q @ coefficients / n
    elif isinstance(given, DensityRatio):
        asked_for = *key, repr(given)
        learned = fit.once("ratio", asked_for, lambda: clone(given).fit(fit.latents, m))
        at, beta, eta = learned.predict, learned.weights_, learned.reg_
    else:
        told = given(fit.points) if callable(given) else given
        values = checks.as_vector(told, "ratio", n=n)
        at = given if callable(given) else lambda _: values
        beta = fit.order.sorted(values) / n
    xp, covered = arrays.namespace(beta), _coverage(U, m, kernel)
    if covered < COVERED or not bool(xp.any(beta > 0)):
        checks.warn_numerical(
            f"the training latents cover {covered:.1g} of the prior: it lies where there are few "
            "or none of them, and the posterior is not to be trusted"
        )
        if float(xp.sum(xp.clip(beta, 0.0, None))) <= LEAST:
            at, beta = _even, xp.full_like(beta, 1.0 / n)
    return Ratio(m, at, beta, eta)


def _linear(features: FeatureMap, coefficients, z) -> Array:
    return features.transform(z) @ coefficients


def _even(z) -> Array:
    return arrays.namespace(z).ones_like(z[:, 0])


def _coverage(U, m: MeanEmbedding, kernel: Kernel) -> float:
    """Share of the prior's points that the training latents span: Σ|α_j| ‖φ(u_j)‖²/k(u_j, u_j)."""
    xp = arrays.namespace(U)
    size, own = xp.abs(m.weights), kernel.diag_of(m.points)
    if float(xp.sum(size)) == 0:
        return 0.0
    spanned = xp.where(own > 0, xp.sum(U * U, axis=-1) / xp.where(own > 0, own, 1.0), 1.0)
    return float(xp.sum(size * spanned) / xp.sum(size))


def as_they_came(m: MeanEmbedding, fit: PairsFit, shares) -> bool:
    """Whether a prior is about that of the latents: shares are about even, and means of features
    no further apart than those of samples of one law, which in many columns tells long before.
    """
    xp = arrays.namespace(shares)
    if float(xp.sum(shares)) ** 2 <= EVEN * shares.shape[0] * float(shares @ shares):
        return False
    mean = xp.mean(fit.Q, axis=0)
    off = m.weights @ fit.features_z.transform(m.points) - mean
    C = fit.second_z - mean[:, None] * mean[None, :]
    most = xp.linalg.trace(C) + APART * (2.0 * xp.sum(C * C)) ** 0.5
    return bool(off @ off <= (1.0 / fit.Q.shape[0] + m.weights @ m.weights) * most)

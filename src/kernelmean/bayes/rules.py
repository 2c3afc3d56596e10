"""The sum, product and Bayes rules: probability calculus on embeddings."""

from dataclasses import replace

from ..core import Array, Labels, arrays, solves
from ..embedding.embedding import MeanEmbedding
from ..embedding.law import names_like
from ..kernels import OnColumns
from ..regression.conditional import ConditionalEmbedding, ConditionalOperator


def sum_rule(c: ConditionalOperator, m) -> MeanEmbedding:
    """Embedding of Y when X ~ m and Y | X ~ c:  μ_Y = E μ_X.

    Parameters
    ----------
    c : ConditionalEmbedding or composition
    m : MeanEmbedding or array of samples of X

    References
    ----------
    Fukumizu, Song, Gretton (2013), Theorem 3.2; MATH §3.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.array([[0], [0], [1], [1]])
    >>> Y = np.array([0.0, 1.0, 1.0, 1.0])
    >>> c = km.ConditionalEmbedding("delta", "delta", reg=1e-10).fit(X, Y)
    >>> prior = km.MeanEmbedding([[0], [1]], weights=[0.5, 0.5], kernel="delta")
    >>> km.sum_rule(c, prior)([[0.0], [1.0]]).round(3)  # P(Y=0), P(Y=1)
    array([0.25, 0.75])
    """
    if not isinstance(c, ConditionalOperator):
        raise ValueError(f"c is {type(c).__name__}; a fitted ConditionalEmbedding is needed")
    return c.apply(m)


def product_rule(c: ConditionalEmbedding, m) -> MeanEmbedding:
    """Embedding of the pair (X, Y) when X ~ m and Y | X ~ c: weights on the training pairs.

    μ_XY = Σ_i w_i k_X(x_i, ·) k_Y(y_i, ·) with the weights of the sum rule. Points are rows
    [x_i, y_i]; the kernel is the product of the two on their own columns.

    Parameters
    ----------
    c : ConditionalEmbedding
    m : MeanEmbedding or array of samples of X

    References
    ----------
    Fukumizu, Song, Gretton (2013), section 3.1; MATH §3.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> X = np.array([[0], [0], [1], [1]])
    >>> Y = np.array([0.0, 1.0, 1.0, 1.0])
    >>> c = km.ConditionalEmbedding("delta", "delta", reg=1e-10).fit(X, Y)
    >>> prior = km.MeanEmbedding([[0], [1]], weights=[0.5, 0.5], kernel="delta")
    >>> km.product_rule(c, prior)([[0.0, 1.0], [1.0, 1.0]]).round(3)
    array([0.25, 0.5 ])
    """
    if not isinstance(c, ConditionalEmbedding):
        raise ValueError(f"c is {type(c).__name__}; a fitted ConditionalEmbedding is needed")
    marginal = c.apply(m)
    xp = arrays.namespace(c.points_x_)
    d_x, d_y = c.points_x_.shape[1], c.points_.shape[1]
    columns_y = tuple(range(d_x, d_x + d_y))
    kernel = OnColumns(((tuple(range(d_x)), c.kernel_x_), (columns_y, c.kernel_y_)))
    pairs = xp.concat([c.points_x_, c.points_], axis=1)
    names = *names_like(c, d_x), *Labels.of(None, c.target_names_).named(d_y)
    found = MeanEmbedding.of_parts(pairs, *marginal.factors, kernel)
    return found.carrying(labels=replace(marginal.labels, columns=names))


def bayes_factors(Phi, shares, coordinates, reg: float, rule: str, second) -> tuple[Array, Array]:
    """Factors of the posterior weights of kernel Bayes' rule: W = left rightᵀ, shape (batch, n).

    importance: left = φ(x)ᵀ(ΦᵀDΦ + λI)⁻¹, right = DΦ with D = diag(max(β, 0));
    squared: left = φ(x)ᵀC(C² + δI)⁻¹, right = diag(β)Φ with C = Φᵀdiag(β)Φ.

    The r×r system does not depend on the observation, so a batch costs one factorisation.

    Parameters
    ----------
    Phi : array of shape (n, r)
        Coordinates of the training observations.
    shares : array of shape (n,)
        Those of the training latents under the prior, near one in sum: the diagonal of D, or β.
    coordinates : array of shape (batch, r)
        Coordinates of the observations conditioned on.
    reg : float
        λ or δ.
    rule : {"importance", "squared"}
    second : array of shape (r, r)
        ΦᵀDΦ, or C.
    """
    right = shares[:, None] * Phi
    if rule == "importance":
        return solves.ridge(second, reg).solve_rows(coordinates), right
    values, vectors = arrays.namespace(Phi).linalg.eigh(second)
    return ((coordinates @ vectors) * solves.squared_filter(values, reg)) @ vectors.T, right

"""The sum and product rules: probability calculus on embeddings."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from . import linalg
from .conditional import ConditionalEmbedding, ConditionalOperator
from .embedding import MeanEmbedding
from .kernels import OnColumns


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
    check_is_fitted(c)
    marginal = c.apply(m)
    xp = linalg.namespace(c.points_x_)
    d_x, d_y = c.points_x_.shape[1], c.points_.shape[1]
    columns_y = tuple(range(d_x, d_x + d_y))
    kernel = OnColumns(((tuple(range(d_x)), c.kernel_x_), (columns_y, c.kernel_y_)))
    pairs = xp.concat([c.points_x_, c.points_], axis=1)
    return MeanEmbedding._of(pairs, marginal._left, marginal._right, kernel)

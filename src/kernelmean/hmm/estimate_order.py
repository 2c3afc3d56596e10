"""How many hidden states a sequence has."""

from ..chains.order import MAX_COMPONENTS, METHODS, Order, Spectrum
from ..core.checks import check_choice, check_count
from ..core.threads import one_thread
from .kernel_hmm import KernelHMM
from .tune import order_by


@one_thread()
def estimate_order(
    X,
    lengths=None,
    *,
    method: str = "correlations",
    kernel="gaussian",
    features=None,
    max_components: int = MAX_COMPONENTS,
    constant: float = 0.3,
    random_state=None,
) -> Order:
    """The number K of hidden states behind a sequence of observations.

    The cross-covariance of consecutive observations has rank K. Rules to read it off an estimate:

    - "correlations": one more than the canonical correlations beyond what chance explains;
    - "threshold": singular values larger than C √(log n/n), C = `constant`;
    - "elbow": the point of the largest curvature of the singular values;
    - "ratio": the largest ratio of a singular value to the next;
    - "likelihood": the number whose model, fitted on the first 70% of every sequence, gives the
      rest the largest log-likelihood, or the smallest number within half a standard error of it.

    Parameters
    ----------
    X : array or DataFrame of shape (n, d)
        Observations; rows with NaN are missing.
    lengths : sequence of int, optional
        Rows of each sequence.
    method : str
    kernel : Kernel, str, scikit-learn kernel or callable
    features : FeatureMap, optional
    max_components : int
        Largest number considered.
    constant : float
        C of the threshold.
    random_state : int, Generator or None
        For the models of "likelihood".

    Returns
    -------
    Order
        A whole number; `singular_values`, `correlations`, `threshold` and `scores` tell how it
        was found.

    References
    ----------
    Spiteri (2023), section 3.5; Satopää et al. (2011), Kneedle; Johnstone (2001), On the
    distribution of the largest eigenvalue; MATH §9.

    Examples
    --------
    >>> import kernelmean as km
    >>> data = km.datasets.make_hmm("separated", 5000, random_state=0)
    >>> km.estimate_order(data.X)
    2
    """
    check_choice(method, "method", METHODS)
    limit = check_count(max_components, "max_components")
    plan = KernelHMM(kernel=kernel, features=features, random_state=random_state)._plan
    draft = plan.draft(X, lengths)
    return order_by(method, plan, draft, Spectrum(draft.moments, limit), constant)

"""State-space models for the package particles."""

from typing import Any

import numpy as np

from ..core.checks import generator
from ..core.extras import require
from ..statespace.particles import StateSpace

PLAIN_PARTICLES = "pip install --no-deps particles, and numba and joblib: particles 0.4 asks for "
PLAIN_PARTICLES += "numpy 1, but its filters run on numpy 2"

# ------------------------------------------------------------ the package `particles`


def as_particles_model(model: StateSpace, random_state: Any = None) -> Any:
    """The same model for the package `particles`: a StateSpaceModel with laws PX0, PX and PY.

    Its algorithms that draw states but need no transition density run on it, as bootstrap filters
    and smoothing by genealogies do.

    Parameters
    ----------
    model : StateSpace
    random_state : int, Generator or None
        For what the model draws. The package itself resamples by NumPy's global generator.

    Returns
    -------
    particles.state_space_models.StateSpaceModel
        States and observations of one column are arrays of shape (N,), as usual there. A row of
        data that holds NaN is missing.

    Raises
    ------
    ImportError
        If the package is missing.

    References
    ----------
    Chopin, Papaspiliopoulos (2020), An introduction to sequential Monte Carlo.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import kernelmean as km
    >>> from kernelmean.adapters.particles import as_particles_model
    >>> data = km.datasets.make_state_space("linear", 20, random_state=0)
    >>> if find_spec("particles"):
    ...     import particles
    ...     from particles.state_space_models import Bootstrap
    ...
    ...     law = Bootstrap(ssm=as_particles_model(data.model, 0), data=data.X)
    ...     run = particles.SMC(fk=law, N=1000)
    ...     run.run()
    ...     assert abs(run.logLt - data.model.log_predictive(data.X).sum()) < 1
    """
    require("particles", "as_particles_model", PLAIN_PARTICLES)
    from particles.distributions import ProbDist
    from particles.state_space_models import StateSpaceModel

    rng = generator(random_state)
    first = model.draw_first(1, np.random.default_rng(0))
    d_x, d_y = first.shape[1], model.mean_emission(first).shape[1]

    class Law(ProbDist):
        def __init__(self, dim, draw, log_density=None):
            self.dim, self._draw, self._log_density = dim, draw, log_density

        def rvs(self, size=None):
            drawn = self._draw(1 if size is None else size)
            return drawn[:, 0] if self.dim == 1 else drawn

        def logpdf(self, x):
            return super().logpdf(x) if self._log_density is None else self._log_density(x)

    class Model(StateSpaceModel):
        def PX0(self):
            return Law(d_x, lambda n: model.draw_first(n, rng))

        def PX(self, t, xp):
            xp = np.reshape(xp, (-1, d_x))
            return Law(d_x, lambda n: model.draw_next(_repeated(xp, n), rng))

        def PY(self, t, xp, x):
            x = np.reshape(x, (-1, d_x))
            return Law(
                d_y,
                lambda n: model.draw_emission(_repeated(x, n), rng),
                lambda y: _log_density(model, np.reshape(y, (1, d_y)), x),
            )

    return Model()


def _repeated(x: np.ndarray, n: int) -> np.ndarray:
    """The law of one state is drawn from n times, those of n states once each."""
    return np.broadcast_to(x, (n, x.shape[1]))


def _log_density(model: StateSpace, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """log p(y | x_j), 0 where y is missing."""
    return np.zeros(len(x)) if np.isnan(y).any() else model.log_emission(y, x)[0]

"""Posteriors for ArviZ: its summaries, its pair plots, its comparisons."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.extras import require


def to_arviz(law, names: Sequence[str] | None = None, draws: int = 1000, random_state=None) -> Any:
    """Draws of a posterior as ArviZ's data, in one chain.

    They are independent: effective sample sizes are the number of draws, and r_hat says nothing.

    Parameters
    ----------
    law : MeanEmbedding or any other law of one distribution
        As from `simulate_posterior`; of a batch take one, `law[0]`.
    names : sequence of str, optional
        Of the parameters; theta0, theta1, … when left out.
    draws : int
    random_state : int, Generator, RandomState or None

    Returns
    -------
    arviz.InferenceData, or from ArviZ 1.0 a DataTree
        With the group `posterior`.

    Raises
    ------
    ValueError
        If the law is a batch, or there are not as many names as parameters.
    ImportError
        If ArviZ is missing.
    """
    az = require("arviz", "to_arviz", "pip install arviz")
    mean = np.asarray(law.mean())
    if mean.ndim > 1:
        raise ValueError(f"law is a batch of {len(mean)} distributions; take one, as law[0]")
    names = [f"theta{j}" for j in range(mean.size)] if names is None else list(names)
    if len(names) != mean.size:
        raise ValueError(f"names has {len(names)} entries, but the law has {mean.size} columns")
    drawn = np.reshape(law.sample(draws, random_state=random_state), (draws, -1))
    posterior = {name: drawn[None, :, j] for j, name in enumerate(names)}
    if int(az.__version__.partition(".")[0]) >= 1:
        return az.from_dict({"posterior": posterior})
    return az.from_dict(posterior=posterior)

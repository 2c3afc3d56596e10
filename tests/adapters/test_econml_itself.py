"""`KernelIVEffect` beside EconML's own estimator, on the same arrays: the package itself."""

from __future__ import annotations

import numpy as np
import pytest

import kernelmean as km

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
AT = np.array([[-1.0], [0.0], [1.0]])


def sample(n: int, treatments: int, seed: int = 3) -> dict:
    """Effect (1 + x) t of the first treatment, confounded; the others do nothing."""
    rng = np.random.default_rng(seed)
    Z, X, e = rng.normal(size=(n, treatments)), rng.normal(size=(n, 1)), rng.normal(size=n)
    T = Z + 0.5 * e[:, None] + 0.3 * rng.normal(size=(n, treatments))
    return {"Y": (1 + X[:, 0]) * T[:, 0] + e, "T": T, "X": X, "Z": Z}


@pytest.mark.parametrize("treatments", [None, 2])
def test_shapes_are_orthoivs_and_so_are_the_effects(treatments):
    iv = pytest.importorskip("econml.iv.dml")
    data = sample(1000, treatments or 1)
    if treatments is None:
        data |= {"T": data["T"][:, 0], "Z": data["Z"][:, 0]}
    theirs = iv.OrthoIV(random_state=0).fit(**data)
    ours = km.econml.KernelIVEffect().fit(**data)
    answers = {
        "effect": lambda model: model.effect(AT, T0=0, T1=1),
        "effect_interval": lambda model: model.effect_interval(AT, T0=0, T1=1, alpha=0.05),
        "marginal_effect": lambda model: model.marginal_effect(0 * data["T"][:3], AT),
        "ate": lambda model: model.ate(AT),
        "ate_interval": lambda model: model.ate_interval(AT),
    }
    for name, asked in answers.items():
        assert np.shape(asked(ours)) == np.shape(asked(theirs)), name
    truth = 1 + AT[:, 0]
    for model in (ours, theirs):
        low, high = model.effect_interval(AT, T0=0, T1=1, alpha=0.001)
        assert (np.ravel(low) < truth).all()
        assert (truth < np.ravel(high)).all()
        assert np.abs(np.ravel(model.effect(AT)) - truth).max() < 0.4

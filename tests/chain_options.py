"""Parameters of `KernelHMM` and `KernelStateSpace` one by one, for tests that vary one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import kernelmean as km

EM = ("n_init", "max_iter", "tol", "directions", "guard", "penalty")
LATENT = {"n_nodes": "nodes", "kernel_x": "kernel", "transition": "transition"}
LAWS = {"normal": km.Normal, "uniform": km.Uniform}


def hidden(**flat: Any) -> dict[str, Any]:
    """Parameters of `KernelHMM`, those of EM in one."""
    em = {name: flat.pop(name) for name in EM if name in flat}
    return flat | ({"em": km.EM(**em)} if em else {})


def latent(**flat: Any) -> dict[str, Any]:
    """Parameters of `KernelStateSpace`, those of EM, the latent law and the filter in one each.

    States are those of the series itself, unless a backbone is asked for.
    """
    features = flat.pop("features", None)
    flat = {"backbone": None} | hidden(**flat)
    if features is not None:
        flat["em"] = replace(flat.get("em", km.EM()), features=features)
    n, reg = (flat.pop(name, "default") for name in ("n_particles", "reg"))
    if n != "default" and flat.get("inference", "nodes") == "particles":
        flat["inference"] = km.Particles(n)
    if reg != "default":
        flat["inference"] = km.KernelRule(reg)
    given = {field: flat.pop(name) for name, field in LATENT.items() if name in flat}
    law = flat.get("latent", "normal")
    if given and callable(law):
        flat["latent"] = km.Sampled(law=law, **given)
    elif given and isinstance(law, str) and law in LAWS:
        flat["latent"] = LAWS[law](**given)
    return flat

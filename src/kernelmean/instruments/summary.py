"""A fitted instrumental-variable regression in words and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.summary import Block, Line, Summary
from .basis import Basis
from .fit import StructuralFit
from .inference import anderson_rubin, average_slope, endogeneity_of, strength
from .rows import kind_of

WAYS = {
    "loo": "every row in both, each left out of its own embedding",
    "samples": "two samples, by what their rows lack",
    "share": "a share of the rows in stage 1, the others in stage 2",
    "folds": "folds, each embedded from the others",
}

BOUNDS = {
    -1: " (the shortest tried: rougher than the search can follow)",
    0: "",
    1: " (the longest tried: hardly bends)",
}


def account(fit: StructuralFit, asked: Mapping[str, Any], formula: str | None) -> Summary:
    """Everything a fitted instrumental-variable regression has to say.

    `asked` are the parameters: what was given, and what was left to be chosen.
    """
    title = f"Kernel instrumental-variable regression of {fit.roles.y}"
    stages, numbers = _stages(fit, asked["split"], formula), _numbers(fit, asked)
    blocks = [stages, *_kernels(fit), numbers, _effects(fit), _tests(fit)]
    return Summary(title, [block for block in blocks if block.lines])


def _stages(fit: StructuralFit, split, formula: str | None) -> Block:
    n, m = fit.sizes
    lines = [
        _listed("endogenous regressors", fit.roles.x),
        _listed("exogenous regressors", fit.roles.c),
        _listed("instruments", fit.roles.z),
        Line("rows in stage 1 / stage 2", (n, m), f"{n:,} / {m:,}"),
        Line("sharing of rows", split, f"{split!r}: {WAYS[kind_of(split)]}"),
    ]
    if formula is not None:
        lines.insert(0, Line("formula", formula, formula))
    return Block("Data and stages", lines)


def _listed(name: str, columns: Iterable[str]) -> Line:
    text = ", ".join(columns) or "none"
    return Line(name, text, text)


def _kernels(fit: StructuralFit) -> list[Block]:
    degree = fit.draft.trend
    if fit.draft.bare:
        least = Line("kernel", None, "none: two-stage least squares")
        powers = Line("powers of each column", degree, f"up to {degree}")
        sides = "Kernel on the regressors", "Kernel on the instruments"
        return [Block(side, [least, powers]) for side in sides]
    trend = "none" if degree is None else f"polynomial of degree {degree}"
    of_x, of_z = (
        _kernel(fit.draft.kernels[i], fit.draft.bases[i], fit.draft.at_bound(i), names)
        for i, names in enumerate((fit.roles.regressors, fit.roles.instruments))
    )
    return [
        Block("Kernel on the regressors", [*of_x, Line("trend beside the kernel", degree, trend)]),
        Block("Kernel on the instruments", of_z),
    ]


def _kernel(kernel, basis: Basis, bounds: np.ndarray, names: list[str]) -> list[Line]:
    """The kernel, its lengthscale along each column, and the number of coordinates."""
    bent, rank = basis.polynomial.bent, basis.features.rank_
    own = kernel.on(bent, len(names)) if len(bent) < len(names) else kernel
    scale = getattr(own, "lengthscale", None)
    if scale is None:
        lines = [Line("kernel", kernel, repr(kernel))]
    else:
        each = np.broadcast_to(np.asarray(scale, dtype=float), len(bent))
        named = zip(bent, each, strict=True)
        lines = [Line("kernel", kernel, type(own).__name__)]
        lines += [
            Line.of(f"lengthscale of {names[j]}", float(s), BOUNDS[int(bounds[j])])
            for j, s in named
        ]
    lines += [Line(names[j], "linear", "a straight line") for j in basis.polynomial.straight]
    for j, levels in basis.polynomial.categories:
        lines.append(Line(names[j], "category", f"{len(levels)} categories"))
    return [*lines, Line("coordinates", rank, f"{rank:,}")]


def _numbers(fit: StructuralFit, asked: Mapping[str, Any]) -> Block:
    p = fit.specification_p
    origins = (
        " (chosen)" if asked[name] is None else " (given)" for name in ("reg_stage1", "reg_stage2")
    )
    contradicted = " (the instruments contradict the fit)" if p < 0.05 else ""
    return Block(
        "Fit",
        [
            *map(Line.of, ("reg_stage1 (λ)", "reg_stage2 (ξ)"), fit.regs, origins),
            *map(Line.of, ("loss of stage 1", "loss of stage 2"), fit.losses),
            Line.of("specification, p-value", p, contradicted),
            *_against_a_line(fit),
        ],
    )


def _against_a_line(fit: StructuralFit) -> list[Line]:
    """What the fit gains over two-stage least squares, by E[y − h⁻ⁱ(X) | z]² of rows left out."""
    if fit.gain is None:
        return []
    gain, error = fit.gain
    share = f"{100 * gain:.2g}% ± {100 * error:.2g}% of the squared error on rows left out"
    if fit.draft.bare and fit.draft.trend == 1:
        text = "2SLS: nothing else is clearly better"
    elif gain > 2 * error:
        text = f"better than 2SLS by {share}"
    else:
        text = f"2SLS would do as well: better by {share}"
    return [Line("straight line", gain, text)]


def _effects(fit: StructuralFit) -> Block:
    """The average derivative in each endogenous regressor, where the kernel has one."""
    lines = []
    for j, name in enumerate(fit.roles.x):
        try:
            found = average_slope(fit, j, level=0.95)
        except ValueError:  # a kernel without a derivative
            break
        limits = f"{100 * found.level:g}% [{found.low:.4g}, {found.high:.4g}]"
        text = f"{found.value:.4g} (s.e. {found.error:.3g}), {limits}, p = {found.p_value:.3g}"
        lines.append(Line(name, found.value, text))
    return Block("Average derivatives", lines)


def _tests(fit: StructuralFit) -> Block:
    found = strength(fit)
    rows = zip(found.names, found.partial_r2, found.f, found.df, strict=True)
    lines = [
        Line(f"strength for {name}", f, f"F = {f:.1f} on {df:.1f} df, partial R² {r2:.3f}")
        for name, r2, f, df in rows
    ]
    if found.weak:
        lines.append(Line("weak instruments", True, "yes: F below 10"))
        if len(found.names) == 1 and not np.isnan(fit.specification_p):
            robust = anderson_rubin(fit, 0.95)
            lines.append(Line("slope of a line, robust", robust.intervals, str(robust)))
    if not np.isnan(fit.specification_p):  # some rows have both regressors and outcome
        test = endogeneity_of(fit)
        lines.append(Line("endogeneity, p-value", test.p_value, str(test)))
    return Block("Instruments", lines)

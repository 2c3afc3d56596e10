"""A fitted instrumental-variable regression in words and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..core.summary import Block, Line, Summary
from .rows import kind_of

if TYPE_CHECKING:
    from .kernel_iv import KernelIV

WAYS = {
    "loo": "every row in both, each left out of its own embedding",
    "samples": "two samples, by what their rows lack",
    "share": "a share of the rows in stage 1, the others in stage 2",
    "folds": "folds, each embedded from the others",
}


def account(model: KernelIV) -> Summary:
    """Everything a fitted instrumental-variable regression has to say."""
    title = f"Kernel instrumental-variable regression of {model.target_name_}"
    blocks = [_stages(model), *_kernels(model), _fit(model), _effects(model), _tests(model)]
    return Summary(title, [block for block in blocks if block.lines])


def regressor_names(model: KernelIV) -> list[str]:
    """Names of the columns of (X, C): their own, or x0, …, c0, …."""
    names = getattr(model, "feature_names_in_", _numbered("x", model.n_features_in_))
    return [*map(str, names), *_control_names(model)]


def instrument_names(model: KernelIV) -> list[str]:
    """Names of the columns of (Z, C)."""
    count = len(model.scales_z_) - model._columns_c
    names = model._names[1] or _numbered("z", count)
    return [*names[:count], *_control_names(model)]


def _control_names(model: KernelIV) -> list[str]:
    return model._names_c or _numbered("c", model._columns_c)


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{j}" for j in range(count)]


def _stages(model: KernelIV) -> Block:
    d, n, m = model.n_features_in_, model.n_stage1_, model.n_stage2_
    columns, instruments = regressor_names(model), instrument_names(model)
    lines = [
        _listed("endogenous regressors", columns[:d]),
        _listed("exogenous regressors", columns[d:]),
        _listed("instruments", instruments[: len(instruments) - model._columns_c]),
        Line("rows in stage 1 / stage 2", (n, m), f"{n:,} / {m:,}"),
        Line("sharing of rows", model.split, f"{model.split!r}: {WAYS[kind_of(model.split)]}"),
    ]
    if model.design_ is not None:
        lines.insert(0, Line("formula", model.design_.formula, model.design_.formula))
    return Block("Data and stages", lines)


def _listed(name: str, columns: Iterable[str]) -> Line:
    text = ", ".join(columns) or "none"
    return Line(name, text, text)


def _kernels(model: KernelIV) -> list[Block]:
    trend = "none" if model.trend_ is None else f"polynomial of degree {model.trend_}"
    beside = Line("trend beside the kernel", model.trend_, trend)
    return [
        Block("Kernel on the regressors", [*_kernel(model, "x", regressor_names(model)), beside]),
        Block("Kernel on the instruments", _kernel(model, "z", instrument_names(model))),
    ]


def _kernel(model: KernelIV, letter: str, names: list[str]) -> list[Line]:
    """The kernel, its lengthscale along each column, and the number of coordinates."""
    kernel = getattr(model, f"kernel_{letter}_")
    rank = getattr(model, f"features_{letter}_").rank_
    scale = getattr(kernel, "lengthscale", None)
    if scale is None:
        lines = [Line("kernel", kernel, repr(kernel))]
    else:
        each = np.broadcast_to(np.asarray(scale, dtype=float), len(names))
        lines = [Line("kernel", kernel, type(kernel).__name__)]
        lines += [
            Line.of(f"lengthscale of {name}", float(s)) for name, s in zip(names, each, strict=True)
        ]
    return [*lines, Line("coordinates", rank, f"{rank:,}")]


def _fit(model: KernelIV) -> Block:
    p = model.specification_p_
    contradicted = " (the instruments contradict the fit)" if p < 0.05 else ""
    return Block(
        "Fit",
        [
            Line.of("reg_stage1 (λ)", model.reg_stage1_, _origin(model.reg_stage1)),
            Line.of("reg_stage2 (ξ)", model.reg_stage2_, _origin(model.reg_stage2)),
            Line.of("loss of stage 1", model.loss_stage1_),
            Line.of("loss of stage 2", model.loss_stage2_),
            Line.of("specification, p-value", p, contradicted),
        ],
    )


def _effects(model: KernelIV) -> Block:
    """The average derivative in each endogenous regressor, where the kernel has one."""
    lines = []
    for j, name in enumerate(regressor_names(model)[: model.n_features_in_]):
        try:
            found = model.average_derivative(column=j)
        except ValueError:  # a kernel without a derivative
            break
        limits = f"{100 * found.level:g}% [{found.low:.4g}, {found.high:.4g}]"
        text = f"{found.value:.4g} (s.e. {found.error:.3g}), {limits}, p = {found.p_value:.3g}"
        lines.append(Line(name, found.value, text))
    return Block("Average derivatives", lines)


def _tests(model: KernelIV) -> Block:
    strength = model.first_stage()
    rows = zip(strength.names, strength.partial_r2, strength.f, strength.df, strict=True)
    lines = [
        Line(f"strength for {name}", f, f"F = {f:.1f} on {df:.1f} df, partial R² {r2:.3f}")
        for name, r2, f, df in rows
    ]
    if strength.weak:
        lines.append(Line("weak instruments", True, "yes: F below 10"))
    if not np.isnan(model.specification_p_):  # some rows have both regressors and outcome
        found = model.endogeneity_test()
        lines.append(Line("endogeneity, p-value", found.p_value, str(found)))
    return Block("Instruments", lines)


def _origin(given) -> str:
    return " (chosen)" if given is None else " (given)"

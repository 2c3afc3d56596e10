"""A fitted instrumental-variable regression in words and numbers."""

from typing import Any

import numpy as np

from ..core import Block, Line, Summary
from ..core.summary import in_short, kernel_lines
from .choice import StructuralDraft
from .fit import StructuralFit
from .groups import kind_of
from .judges import doubt

WAYS = {
    "loo": "every row in both, each left out of its own embedding",
    "samples": "two samples, by what their rows lack",
    "share": "a share of the rows in stage 1, the others in stage 2",
    "folds": "folds, each embedded from the others",
}

BOUNDS = {
    -1: " (the shortest tried: rougher than the search can follow)",
    1: " (the longest tried: hardly bends)",
}


def account(model: Any, fit: StructuralFit, level: float) -> Summary:
    """Everything a fitted instrumental-variable regression has to say."""
    title = f"Kernel instrumental-variable regression of {fit.roles.y}"
    blocks = [
        _stages(model, fit),
        *_kernels(fit),
        _numbers(model, fit),
        _effects(model, level),
        _tests(model, level),
    ]
    return Summary(title, [block for block in blocks if block.lines])


def _stages(model: Any, fit: StructuralFit) -> Block:
    (n, m), split = fit.sizes, model.split
    lines = [
        Line.listed("endogenous regressors", fit.roles.x),
        Line.listed("exogenous regressors", fit.roles.c),
        Line.listed("instruments", fit.roles.z),
        Line("rows in stage 1 / stage 2", (n, m), f"{n:,} / {m:,}"),
        Line("sharing of rows", split, f"{split!r}: {WAYS[kind_of(split)]}"),
    ]
    if fit.clusters is not None:
        text = f"{fit.clusters.n:,}, within which noise may go together"
        lines.append(Line("clusters", fit.clusters.n, text))
    if model.design_ is not None:
        lines.insert(0, Line("formula", model.design_.formula, model.design_.formula))
    return Block("Data and stages", lines)


def _kernels(fit: StructuralFit) -> list[Block]:
    degree = fit.draft.trend
    of_x, of_z = (
        [
            *(_kernel if fit.draft.curved(i) else _powers)(fit.draft, i, names),
            *_plain(fit, i, names),
        ]
        for i, names in enumerate((fit.roles.regressors, fit.roles.instruments))
    )
    Z = fit.sample[1][:, : len(fit.roles.z)]
    own, k = len(fit.roles.x), len(np.unique(Z, axis=0))
    if fit.draft.straight(own) and k - 1 <= own:
        whole = fit.roles.c and not fit.draft.crossed
        one = ", of one slope whatever the exogenous are" if whole else ""
        text = f"{k}: h is taken for a line in {', '.join(fit.roles.x)}{one}"
        of_x.append(Line("values of the instruments", k, text))
    if fit.draft.crossed:
        text = f"of {', '.join(fit.roles.x)} go with {', '.join(fit.differs_along)}"
        of_x.append(Line("slopes", fit.differs_along, text))
    if fit.bent < 1.0:
        line = "a line beside curves" if fit.basis.first else "two-stage least squares"
        text = f"{fit.bent:.2g} of the way from {line} to what bends"
        of_x.append(Line("share of the bend", fit.bent, text))
    if fit.draft.curved(0):
        trend = "none" if degree is None else f"polynomial of degree {degree}"
        of_x.append(Line("trend beside the kernel", degree, trend))
    return [Block("Kernel on the regressors", of_x), Block("Kernel on the instruments", of_z)]


def _powers(draft: StructuralDraft, i: int, names: list[str]) -> list[Line]:
    squares = ": two-stage least squares" if draft.bare else ""
    constant = ", with Fuller's constant: instruments are weak" if draft.weak else ""
    least = Line("kernel", None, f"none{squares}{constant}")
    first = draft.bases[i].polynomial.mixed
    mixed = f", with products of {', '.join(names[j] for j in first)}" if first else ""
    powers = Line("powers of columns", draft.trend, f"up to {draft.trend}{mixed}")
    return [least, powers] if draft.bare or (draft.trend or 0) > 1 else [least]


def _kernel(draft: StructuralDraft, i: int, names: list[str]) -> list[Line]:
    """The kernel, its lengthscale along each column, and the number of coordinates."""
    kernel, basis, bounds = draft.kernels[i], draft.bases[i], draft.at_bound(i)
    rank, bent = basis.features.rank_, draft.bent(i)
    if basis.first and kernel == basis.features.kernel_:
        each = [kernel_lines(part.kernel_, names) for part in basis.features.parts]
        whole = Line("kernel", kernel, " + ".join(first.text for first, *_ in each))
        lines = [whole, *(line for _, *more in each for line in more)]
    else:
        own = kernel.on(bent, len(names)) if len(bent) < len(names) else kernel
        lines = kernel_lines(own, [names[j] for j in bent])
    lines.append(Line("coordinates", rank, f"{rank:,}"))
    stuck = [f"{names[j]}{BOUNDS[int(bounds[j])]}" for j in bent if bounds[j]]
    return [*lines, Line.listed("at a bound of the search", stuck)] if stuck else lines


def _plain(fit: StructuralFit, i: int, names: list[str]) -> list[Line]:
    """Columns without a kernel."""
    polynomial, bent = fit.draft.bases[i].polynomial, fit.draft.bent(i)
    lines = [(j, "linear", "a straight line") for j in polynomial.straight]
    lines += [(j, "category", f"{len(levels)} categories") for j, levels in polynomial.categories]
    short = in_short(names)  # columns of one category are one line
    told = {short[names[j]]: (value, text) for j, value, text in lines if j not in bent}
    each = ((k, v, text if k in names else "columns of 0 and 1") for k, (v, text) in told.items())
    return [Line(*line) for line in each]


def _numbers(model: Any, fit: StructuralFit) -> Block:
    p, xi = fit.specification_p, Line.chosen("reg_stage2 (ξ)", fit.regs[1], model.reg_stage2)
    if not fit.draft.curved(0):  # nothing that ξ is of
        xi = Line(xi.name, xi.value, "∞: two-stage least squares")
    contradicted = " (the instruments contradict the fit)" if p < 0.05 else ""
    return Block(
        "Fit",
        [
            Line.chosen("reg_stage1 (λ)", fit.regs[0], model.reg_stage1),
            xi,
            *map(Line.of, ("loss of stage 1", "loss of stage 2"), fit.losses),
            *([] if np.isnan(p) else [Line.of("specification, p-value", p, contradicted)]),
            *_against_a_line(fit),
        ],
    )


def _against_a_line(fit: StructuralFit) -> list[Line]:
    """What the fit gains over two-stage least squares, by E[y − h⁻ⁱ(X) | z]² of rows left out."""
    if fit.gain is None:
        return []
    gain, error = fit.gain
    told = " ± ".join(f"{float(f'{100 * v:.2g}'):g}%" for v in fit.gain)
    share = f"{told} of the squared error on rows left out"
    if fit.draft.bare and fit.draft.trend == 1 and not fit.draft.crossed:
        text = "2SLS: nothing else is clearly better"
    elif gain > 2 * error:
        text = f"better than 2SLS by {share}"
    elif doubt(fit.refused) >= 1.0:
        text = f"refused by a test (p = {fit.refused:.1g}); what bends gains {share}"
    else:
        text = "2SLS would do as well: "
        text += f"the gain is {share}" if gain else "there is no gain"
    return [Line("straight line", gain, text)]


def _effects(model: Any, level: float) -> Block:
    """The average derivative in each endogenous regressor, where the kernel has one."""
    lines = []
    for j, name in enumerate(model.roles_.x):
        try:
            found = model.average_derivative(column=j, level=level)
        except ValueError:  # a kernel without a derivative
            break
        if np.isnan(found.value):  # nor has a category
            continue
        text = str(found).removeprefix(f"{found.name}: ")
        lines.append(Line(name, found.value, f"{text}, p = {found.p_value:.3g}"))
    return Block("Average derivatives", lines)


def _tests(model: Any, level: float) -> Block:
    found, complete = model.first_stage(), not np.isnan(model.specification_p_)
    clusters = model.fit_.clusters
    against = "unequal variances" + " and noise that goes together" * (clusters is not None)
    rows = zip(found.names, found.partial_r2, found.f, found.df, found.carried, strict=True)
    lines = [
        Line(f"strength for {name}", f, f"F = {f:.1f} on {df:.1f} df, partial R² {r2:.3f}{few}")
        for name, r2, f, df, few in rows
    ]
    each = zip(found.names, found.linear, strict=True)
    lines += [Line(f"linear F for {x}", f, f"{f:.1f}, robust to {against}") for x, f in each]
    if found.weak:
        lines.append(Line("weak instruments", True, "yes: F below 10"))
        if len(found.names) == 1 and complete and (clusters is None or len(model.roles_.z) == 1):
            robust = model.anderson_rubin(level=level)
            lines.append(Line("slope of a line, robust", robust.intervals, str(robust)))
    if complete:  # some rows have both regressors and outcome
        test = model.endogeneity_test()
        lines.append(Line("endogeneity, p-value", test.p_value, str(test)))
    return Block("Instruments", lines)

"""Formulas of instrumental-variable regressions: "y ~ controls + [regressors ~ instruments]".

Parsed and evaluated by formulaic (extra `iv`). A fitted model keeps the text of the formula and
what its transformations learned (the knots of a spline, the categories of a column): plain data,
which `save` writes without pickle. Only the functions named in `FUNCTIONS`, and those of NumPy that
work on each element, may stand in a formula: a file that was loaded cannot run anything else.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import wraps
from math import inf, prod
from typing import Any

import numpy as np

from ..core import Saveable, checks
from ..core.extras import require

SPLINES = ("poly", "bs", "cr", "cs", "cc")  # the second argument is a number of columns
WIDTHS = ("df", "degree", "knots")  # so are these, or lists
MOST_COLUMNS = 100  # of a spline
FUNCTIONS = [
    *("I", "C", "log", "log2", "log10", "exp", "exp2", "exp10", "center", "scale", "standardize"),
    *SPLINES,
]
MOST_TERMS = 1_000  # of a formula, multiplied out
MOST_LETTERS = 10_000
MOST_MADE = 5_000  # columns of all terms together
CONTRASTS = ["treatment", "sum", "helmert", "diff", "poly"]  # as in C(x, contr.sum)
ELEMENTWISE = ["where", "clip"]  # of NumPy, beside its ufuncs
UNMATCHED = (AttributeError, LookupError, TypeError)  # formulaic's own, of "(]" and "log(``)"
BROKEN = (*UNMATCHED, ArithmeticError, MemoryError, RuntimeError)  # of odd texts
PLAIN = (
    *(ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare),
    *(ast.List, ast.Tuple, ast.Dict, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
    ast.expr_context,
)
NEEDED = '"y ~ c1 + c2 + [x ~ z1 + z2]" is needed'


@dataclass(frozen=True)
class Columns(Saveable):
    """Columns of numbers that some terms make from a table, and what the terms learned.

    Attributes
    ----------
    states : dict
        Of stateful transformations, such as the knots of a spline.
    levels : dict
        Categories of each categorical factor.
    names : list of str
        Columns kept: those that vary.
    """

    states: dict
    levels: dict
    names: list[str]

    @classmethod
    def learn(cls, terms: list, table) -> tuple[Columns, Any]:
        """What is learned from a table, and its columns."""
        frame, spec = _evaluate(terms, table, {}, {})
        names = [c for c in frame if frame[c].nunique() > 1]
        kinds = spec.encoder_state
        levels = {k: list(s["categories"]) for k, (_, s) in kinds.items() if "categories" in s}
        return cls(deepcopy(spec.transform_state), levels, names), frame[names]

    def of(self, terms: list, table):
        """The same columns of another table."""
        return _evaluate(terms, table, self.states, self.levels)[0][self.names]


@dataclass(frozen=True)
class Design(Saveable):
    """How the columns of a model are made from a table.

    Attributes
    ----------
    formula : str
    y : Columns
        The outcome.
    X : Columns
        The endogenous regressors.
    C : Columns
        The exogenous ones, perhaps none.
    """

    formula: str
    y: Columns
    X: Columns
    C: Columns

    def outcome(self, table):
        """y from a table that has the formula's own columns."""
        terms = parse(self.formula)["y"]
        return self.y.of(terms, _checked(table, _names(terms))).iloc[:, 0]

    def regressors(self, table, C=None) -> tuple[Any, Any]:
        """X and C from a table that has the formula's own columns."""
        if C is not None:
            raise ValueError(
                f"C is given beside a table, but the model was made by {self.formula!r}: pass one "
                "table with all of its columns"
            )
        terms = parse(self.formula)
        table = _checked(table, names_of(self.formula)["regressors"])
        exogenous = self.C.of(terms["C"], table) if self.C.names else None
        return self.X.of(terms["X"], table), exogenous


class of_class(classmethod):
    """A classmethod that refuses to be asked of an instance, whose settings it would not see."""

    def __get__(self, instance, owner=None) -> Any:
        bound = super().__get__(instance, owner)

        @wraps(bound)
        def refused(*args, **parameters):
            name, own = bound.__name__, type(instance).__name__
            raise ValueError(
                f"{name} makes a model of its own and was asked of {instance!r}, whose settings "
                f"it does not see; {own}.{name}(formula, data, …), with them as keywords, is needed"
            )

        return bound if instance is None else refused


def read_formula(formula: str, data, *, gaps: bool = False) -> tuple[Design, Any, Any, Any, Any]:
    """The design, and y, X, Z, C (None without exogenous columns) as tables of numbers.

    Parameters
    ----------
    formula : str
        "y ~ controls + [regressors ~ instruments]".
    data : DataFrame
    gaps : bool
        Whether values of y and X may be missing (two samples in one table).
    """
    terms, names = parse(formula), names_of(formula)
    table = _checked(data, names["all"], names["instruments"] if gaps else None)
    learned = {name: Columns.learn(part, table) for name, part in terms.items()}
    y, X, Z, C = (frame for _, frame in learned.values())
    if y.shape[1] > 1:
        raise ValueError(f"the outcome of {formula!r} makes columns {list(y)}; one is needed")
    for what, part in [("outcome", y), ("regressors", X), ("instruments", Z)]:
        if part.shape[1] == 0:
            raise ValueError(f"every column of the {what} is constant; one that varies is needed")
    if gaps:
        y, X = _gaps(y, table, terms["y"]), _gaps(X, table, terms["X"])
    design = Design(formula, *(learned[name][0] for name in "yXC"))
    return design, y.iloc[:, 0], X, Z, C if C.shape[1] else None


def names_of(formula: str) -> dict[str, list[str]]:
    """Columns of the table that a formula reads: all, for the regressors, for the instruments."""
    terms = parse(formula)
    return {
        "all": _names(*terms.values()),
        "regressors": _names(terms["X"], terms["C"]),
        "instruments": _names(terms["Z"], terms["C"]),
    }


# ------------------------------------------------------------------------------ the text


def parse(formula: str) -> dict[str, list]:
    """The terms of y, X, Z and C; the last three with a constant, so that C(...) leaves one out."""
    if not isinstance(formula, str):
        raise ValueError(f"formula is {formula!r}; a string such as {NEEDED}")
    root, brackets, y = _structure(formula)
    if len(brackets) != 1 or len(y) != 1:
        found = f"{len(y)} outcomes and {len(brackets)} brackets [regressors ~ instruments]"
        raise ValueError(f"formula is {formula!r}, with {found}; {NEEDED}")
    X, Z = list(brackets[0].lhs), list(brackets[0].rhs)
    stand_ins = {f"{term}_hat" for term in X}  # formulaic's, for the bracket
    C = [t for t in root if t.origin is None]
    alone = len(root) - len(C) == len(X) and not stand_ins & {f.expr for t in C for f in t.factors}
    if not alone:
        raise ValueError(f"formula is {formula!r}; the bracket can only be added: {NEEDED}")
    one = [t for t in C if str(t) == "1"]
    if not one or "1" not in map(str, Z):
        raise ValueError(
            f"formula is {formula!r}; the intercept is the model's own and cannot be left out: "
            "remove `0 +` or `- 1` (the parameter `trend=None` fits without one)"
        )
    parts = {"y": y, "X": [*one, *(t for t in X if str(t) != "1")], "Z": Z, "C": C}
    _check_once(formula, parts)
    _names(*parts.values())
    return parts


def _structure(formula: str) -> tuple[list, list, list]:
    """Terms outside brackets, the brackets, and terms of the outcome."""
    formulaic = _formulaic()
    parser = formulaic.parser.DefaultFormulaParser(feature_flags={"twosided", "multistage"})
    try:
        # refused before it is multiplied out: (a + b + c)**200 would not end
        if len(formula) > MOST_LETTERS or _terms(parser.get_ast(formula)) > MOST_TERMS:
            raise NotImplementedError(f"more than {MOST_TERMS:,} terms or {MOST_LETTERS:,} letters")
        sides = formulaic.Formula(formula, _parser=parser)
    except (formulaic.errors.FormulaicError, SyntaxError, *BROKEN) as err:
        reason = "something stands where it cannot"
        if not isinstance(err, UNMATCHED):
            reason = str(err).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"formula is {formula!r}, which cannot be read ({reason}); {NEEDED}, with names that "
            "have spaces or signs in backquotes"
        ) from err
    if not hasattr(sides, "lhs") or not hasattr(sides.rhs, "deps"):
        raise ValueError(f"formula is {formula!r}, without an outcome or a bracket; {NEEDED}")
    return list(sides.rhs.root), list(sides.rhs.deps), list(sides.lhs)


def _terms(node: Any) -> float:
    """How many terms a part of a formula makes at most."""
    if not hasattr(node, "operator"):
        return 1.0
    operator, sizes = node.operator.symbol, [_terms(part) for part in node.args]
    match operator:
        case "**" | "^":
            return min(1 + sizes[0], 1e9) ** min(_power(node.args[1]), 20.0)  # no overflow
        case "*" | "/" | ":" | "%in%" | "in":
            return prod(1 + size for size in sizes)
    return sum(sizes)


def _power(token: Any) -> float:
    """What stands behind `**`; a power of a power, whichever way it is read, is refused."""
    if hasattr(token, "operator"):
        return inf
    try:
        return float(str(token))
    except ValueError:
        return 1.0


def _formulaic() -> Any:
    return require("formulaic", "a formula", 'pip install "kernelmean[iv]"')


def _check_once(formula: str, parts: dict[str, list]) -> None:
    """Each term has one part to play."""
    texts = [text for terms in parts.values() for text in {str(t) for t in terms} - {"1"}]
    if twice := sorted({text for text in texts if texts.count(text) > 1}):
        raise ValueError(
            f"formula is {formula!r}; {twice} stands in it more than once, and each term has one "
            "part to play (controls serve as instruments by themselves)"
        )


def _names(*parts: list) -> list[str]:
    """The columns that terms are made from; anything but the functions allowed is refused."""
    names: dict[str, None] = {}
    for factor in (f for terms in parts for t in terms for f in t.factors):
        if factor.eval_method.value == "lookup":
            names[factor.expr] = None
        elif factor.eval_method.value == "python":
            names |= dict.fromkeys(_read(factor.expr)[1])
    return list(names)


def _read(expression: str) -> tuple[ast.AST, list[str]]:
    """An expression of Python, and the columns in it."""
    from formulaic.utils.code import sanitize_variable_names

    aliases: dict[str, str] = {}
    try:
        tree = ast.parse(sanitize_variable_names(expression, {}, aliases), mode="eval")
        names = _variables(tree, expression)
    except (SyntaxError, *BROKEN) as err:
        raise ValueError(f"{expression[:80]!r} in the formula cannot be read: {err}") from err
    return tree, [aliases.get(name, name) for name in names]


def _variables(node: ast.AST, expression: str) -> list[str]:
    """Names of columns in an expression."""
    children: list[ast.AST]
    _check_cheap(node, expression)
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute() if _known(node):
            return []
        case ast.Call(func=function) if _known(function):
            children = [*node.args, *(k.value for k in node.keywords)]
        case _ if isinstance(node, PLAIN):
            children = list(ast.iter_child_nodes(node))
        case _:
            raise ValueError(
                f"{ast.unparse(node)!r} in the formula is not among the functions that may stand "
                f"in it: {', '.join(FUNCTIONS)} and NumPy's elementwise functions, as np.sqrt; "
                "a name with spaces stands in backquotes, `my column`; "
                "anything else is a column to make in the table first"
            )
    return [name for child in children for name in _variables(child, expression)]


def _check_cheap(node: ast.AST, expression: str) -> None:
    """Refuse what Python would compute forever: 9**9**9, "a" * 10**9, poly(x, 10**6)."""
    match node:
        case ast.BinOp(left=left, op=op):
            number = not any(isinstance(part, ast.Name) for part in ast.walk(left))
            raised = isinstance(op, ast.Pow | ast.LShift) and number
            texts = (isinstance(getattr(part, "value", 0), str | bytes) for part in ast.walk(node))
            lists = (isinstance(part, ast.List | ast.Tuple | ast.Dict) for part in ast.walk(node))
            cheap = not (raised or any(texts) or any(lists))
        case ast.Constant(value=int(value)):
            cheap = abs(value) <= 2**53
        case ast.Call(func=ast.Name(id=name)) if name in SPLINES:
            cheap = _columns(node) <= MOST_COLUMNS
        case _:
            cheap = True
    if not cheap:
        raise ValueError(
            f"{ast.unparse(node)[:80]!r} in the formula {expression[:80]!r} may take forever to "
            f"compute: raise columns to powers, not numbers, and keep numbers below 2⁵³ and "
            f"splines below {MOST_COLUMNS} columns"
        )


def _columns(spline: ast.Call) -> float:
    """Columns that a spline's literal numbers, and lists of knots, stand for."""
    count = 0.0
    for size in [*spline.args[1:2], *(k.value for k in spline.keywords if k.arg in WIDTHS)]:
        match size:
            case ast.Constant(value):
                count += value if isinstance(value, int) else 0
            case ast.List(elts=knots):
                count += len(knots)
            case _:
                return inf
    return count


def _known(function: ast.AST) -> bool:
    """Whether a function, or a number or contrast by name, may stand in a formula."""
    match function:
        case ast.Name(id=name):
            return name in FUNCTIONS
        case ast.Attribute(value=ast.Name(id="contr"), attr=name):
            return name in CONTRASTS
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name in ELEMENTWISE or isinstance(getattr(np, name, None), np.ufunc | float)
    return False


# ------------------------------------------------------------------------------ the table


def _checked(data, names: Sequence[str], complete: Sequence[str] | None = None):
    """The columns named, of a DataFrame, without gaps (in those that must be complete)."""
    checks.refuse_far(data, "data")
    data = data.to_pandas() if hasattr(data, "to_pandas") else data
    if not hasattr(data, "iloc") or not hasattr(data, "columns"):
        raise ValueError(
            f"data is a {type(data).__name__}; a DataFrame with the columns {list(names)} is needed"
        )
    missing = [name for name in names if name not in data.columns]
    if missing:
        raise ValueError(f"data lacks the columns {missing} of the formula")
    table = data[list(names)]
    if table.shape[1] != len(names):
        raise ValueError(f"data has several columns of the same name among {list(names)}")
    gaps = table[list(names if complete is None else complete)].isna().sum()
    if gaps.any():
        counts = {str(name): int(count) for name, count in gaps.items() if count}
        raise ValueError(
            f"data has missing values, by column: {counts}; remove those rows first, as with "
            f"data.dropna(subset={list(counts)})"
        )
    return table


def _evaluate(terms: list, table, states: dict, levels: dict) -> tuple[Any, Any]:
    """The columns that terms make, as floats with the index of the table, and formulaic's spec."""
    formulaic = _formulaic()
    _refuse_text(terms, table)
    _refuse_wide(terms, table)
    categories = table.select_dtypes("category")  # known to a column may be more than it has
    used = {name: column.cat.remove_unused_categories() for name, column in categories.items()}
    kind = formulaic.parser.types.Factor.Kind.CATEGORICAL
    spec = formulaic.ModelSpec(
        formulaic.SimpleFormula(terms),
        na_action="ignore",
        transform_state=deepcopy(states),
        encoder_state={name: (kind, {"categories": list(s)}) for name, s in levels.items()},
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", formulaic.errors.DataMismatchWarning)
        try:
            matrix = spec.get_model_matrix(table.assign(**used).reset_index(drop=True))
        except formulaic.errors.DataMismatchWarning as warning:
            unseen = ", ".join(re.findall(r"\{.*?\}", str(warning)))
            raise ValueError(
                f"data has categories that the model was not fitted on: {unseen[:200]}"
            ) from warning
        except (formulaic.errors.FormulaicError, ValueError, *BROKEN) as err:
            raise ValueError(f"the formula cannot be evaluated on data: {err}") from err
    frame = matrix.astype(float).set_axis(table.index, axis=0)
    _refuse_infinite(frame, table)
    return frame, matrix.model_spec


def _refuse_text(terms: list, table) -> None:
    """Text has to be called categorical: a number read as text must not pass for categories."""
    import pandas as pd

    for name in (f.expr for t in terms for f in t.factors if f.eval_method.value == "lookup"):
        kind = table[name].dtype
        if not (pd.api.types.is_numeric_dtype(kind) or isinstance(kind, pd.CategoricalDtype)):
            dates = pd.api.types.is_datetime64_any_dtype(kind)
            what = "make it days or years first" if dates else f"for categories write C({name})"
            raise ValueError(f"column {name!r} has dtype {kind}, not numbers; {what}")


def _refuse_wide(terms: list, table) -> None:
    """Before they are made: C(a):C(b):C(c) of 200 rows may be eight million columns."""
    columns = sum(prod(_width(factor, table) for factor in term.factors) for term in terms)
    if columns > MOST_MADE:
        raise ValueError(
            f"the formula makes up to {columns:,} columns of these {len(table):,} rows; at most "
            f"{MOST_MADE:,} are possible: take fewer categories, or narrower splines"
        )


def _width(factor: Any, table) -> float:
    """How many columns a factor makes at most."""
    match factor.eval_method.value:
        case "lookup" if hasattr(table[factor.expr], "cat"):
            return table[factor.expr].nunique()
        case "python":
            tree, names = _read(factor.expr)
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            if any(ast.unparse(call.func) == "C" for call in calls):
                return len(table[names].drop_duplicates())
            splines = [call for call in calls if ast.unparse(call.func) in SPLINES]
            return max([1.0, *(3 + _columns(call) for call in splines)])
    return 1


def _refuse_infinite(frame, table) -> None:
    """np.log(x) of x ≤ 0, and the like."""
    known = table.notna().all(axis=1).to_numpy()
    bad = (~np.isfinite(frame[known])).sum()
    if bad.any():
        counts = {str(name): int(count) for name, count in bad.items() if count}
        raise ValueError(f"the formula gives NaN or inf, by column: {counts}")


def _gaps(frame, table, terms: list):
    """NaN where something that a row is made from is missing (categories would read as zeros)."""
    missing = table[_names(terms)].isna().any(axis=1)
    return frame.mask(missing, axis=0)

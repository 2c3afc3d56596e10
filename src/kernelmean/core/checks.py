"""The public door: every array and number a user hands in is checked here, and nowhere else."""

import contextlib
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .stages import within

Array = Any  # an array of any library that speaks the array API

LARGEST = 1e40  # beyond this, products of second moments overflow
SMALLEST = 1e-40  # of differences: the squares of those below vanish
# of files whose frames are not the caller's: contexts that decorate are entered in those
_CONTEXTS = contextlib.__file__, np.errstate.__call__.__code__.co_filename
_INSIDE = (str(Path(__file__).parents[1]) + os.sep, *_CONTEXTS)


class NumericalWarning(UserWarning):
    """Something numerical gave way (rank loss, collapse, no convergence) and was handled."""


_HUSHED: ContextVar[bool] = ContextVar("whether numerical trouble is told elsewhere", default=False)


def hushed(on: bool = True) -> contextlib.AbstractContextManager[None]:
    """No `NumericalWarning` by `warn_numerical`, in this thread and in those that work for it.

    Within, `hushed(False)` lets them through where they are gathered.

    What `warnings.catch_warnings` changes is the process's, and would be put back in disorder by
    threads that leave it in another order than they came.
    """
    return within(_HUSHED, on)


def warn_numerical(message: str) -> None:
    """A `NumericalWarning`, unless a search that tries many candidates hushed it."""
    if not _HUSHED.get():
        warn_caller(message, NumericalWarning)


def warn_caller(message: str, category: type[Warning]) -> None:
    """A warning that points to the line from which this package was called."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class WrongKindError(ValueError, TypeError):
    """What holds no numbers, or holds them elsewhere, stands where an array is needed."""


def as_points(
    X, name: str = "X", *, n: int = 0, min_rows: int = 1, one_d: bool = True, gaps: bool = False
) -> Array:
    """Rows of finite numbers: a float64 array of shape (n, d) in the array library of `X`.

    Parameters
    ----------
    X : array, DataFrame, Series or nested list
    name : str
        The argument's name, for messages.
    n : int
        Rows of X, beside which these stand; 0 where they stand alone.
    min_rows : int
        Fewest rows accepted.
    one_d : bool
        Whether shape (n,) is read as a single column.
    gaps : bool
        Whether NaN, a missing number, may stay.
    """
    X = as_floats(as_table(X), name)
    if X.ndim == 1 and one_d:
        X = X[:, None]
    _check_shape(X, name, min_rows)
    check_finite(X, name, gaps)
    if n:
        check_lengths(n, X.shape[0], "X", name)
    # sums over columns that lie one after the other, as in DataFrames, would round otherwise
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X


def as_table(X) -> Any:
    """A Series is a table of one column."""
    return X.to_frame() if hasattr(X, "to_frame") and not is_dask(X) else X


def as_vector(y, name: str = "y", *, n: int | None = None, gaps: bool = False) -> Array:
    """Finite numbers of shape (n,); a single column is flattened."""
    y = as_floats(y, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(y.shape)}; a vector of shape (n,) is needed")
    check_finite(y, name, gaps)
    if n is not None:
        check_lengths(n, y.shape[0], "X", name)
    return y


class FarAway:
    """What holds rows that are elsewhere (`Rows`)."""


def is_dask(table) -> bool:
    """Whether a table is a collection of Dask (which is not imported to find out)."""
    return hasattr(table, "__dask_graph__") and not hasattr(table, "dims")  # xarray's have both


def refuse_far(X, name: str) -> None:
    """Rows that are elsewhere, or come once, at a door that needs them in memory."""
    kind = f"a {type(X).__name__}"
    if hasattr(X, "dims") and hasattr(X, "__dask_graph__"):  # dimensions in any order
        found, instead = f"{kind} of xarray", f"{name}.to_pandas(), rows first"
    elif is_dask(X):
        found, instead = f"{kind} of Dask", f"{name}.compute()"
    elif hasattr(X, "mapInArrow"):
        found, instead = "a DataFrame of Spark", f"{name}.toPandas(), or columns of km.Rows({name})"
    elif hasattr(X, "collect"):  # of Polars
        found, instead = f"{kind}, which holds no rows yet", f"{name}.collect()"
    elif isinstance(X, FarAway):
        found, instead = "a Rows", f"{name}.few(10_000), or all of them"
    elif isinstance(X, Iterator):
        found, instead = f"{kind}, which can be read once only", "km.Rows or an array"
    else:
        return
    raise WrongKindError(
        f"{name} is {found}, but here rows are needed in memory: {instead}. (What takes rows that "
        'are elsewhere: the guide, "Rows anywhere")'
    )


def as_floats(X, name: str) -> Array:
    """`X` as a real float64 array; text, complex numbers, sparse and ragged input are refused."""
    if type(X) is np.ndarray and X.dtype == np.float64:
        return X
    if X is None:
        raise ValueError(f"{name} is None; an array of numbers is needed")
    refuse_far(X, name)
    if issparse(X):
        raise ValueError(f"{name} is a sparse matrix; a dense array is needed: {name}.toarray()")
    X = X if is_array_api_obj(X) and not is_numpy_array(X) else _as_numpy(X, name)
    xp = array_namespace(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"{name} is complex. Complex data not supported: real numbers are needed")
    return X if X.dtype == xp.float64 else xp.astype(X, xp.float64)


def _as_numpy(X, name: str) -> np.ndarray:
    """A NumPy array of real or complex numbers."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        _refuse_odd_columns(X, name)
    if any(map(np.ma.is_masked, X if isinstance(X, list | tuple) else [X])):
        raise ValueError(f"{name} has masked (missing) values; remove or impute them first")
    try:
        X = _table_values(X) if hasattr(X, "iloc") else np.asarray(X)
    except ValueError as err:
        raise ValueError(f"{name} is ragged (rows of different lengths); pass (n, d)") from err
    except TypeError as err:  # of a device whose arrays do not come here by themselves
        kind = f"{type(X).__module__}.{type(X).__name__}"
        raise WrongKindError(f"{name} is a {kind}, which is no array here: {err}") from err
    if X.dtype.kind in "USTMm" or (X.dtype.kind == "O" and _holds_text(X)):
        raise ValueError(f"{name} holds text or dates (dtype {X.dtype}); numbers are needed")
    try:
        return X if X.dtype.kind == "c" else X.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as err:
        raise WrongKindError(f"{name} holds something that is not a number: {err}") from err


def _table_values(X) -> np.ndarray:
    """pandas' missing values are NaN here; some versions refuse to say so of whole numbers."""
    return X.to_numpy(na_value=np.nan) if np.any(X.isna()) else X.to_numpy()


def _refuse_odd_columns(X, name: str) -> None:
    if len({isinstance(c, str) for c in X.columns}) > 1:
        raise ValueError(
            f"{name} has columns {list(X.columns)}, some named by text and others not; rename them "
            f"all by text: {name}.columns = {name}.columns.astype(str)"
        )
    twice = [str(c) for c, count in Counter(X.columns).items() if count > 1]
    if twice:
        raise ValueError(f"{name} has more than one column named {', '.join(twice)}; rename them")
    kinds = dict(zip(map(str, X.columns), X.dtypes, strict=True))
    dates = [c for c, kind in kinds.items() if re.match("date|time|period", str(kind).lower())]
    if dates:
        raise ValueError(
            f"{name} has columns of dates {dates}; encode them as numbers or drop them"
        )
    odd = [c for c, kind in kinds.items() if getattr(kind, "kind", "O") not in "fiub"]
    found = {c: np.asarray(X[c], dtype=object) for c in odd if c in X.columns}
    text = [c for c, column in found.items() if _holds_text(column)]
    if text:
        row, value = next((i, v) for i, v in enumerate(found[text[0]]) if _is_text(v))
        raise ValueError(
            f"{name} has text columns {text} ({value!r} in row {row}, counted from 0); "
            "encode them as numbers or drop them"
        )


def _is_text(v) -> bool:  # or a date that NumPy would count in units of its own
    return isinstance(v, str | bytes | np.datetime64 | np.timedelta64)


def _holds_text(X: np.ndarray) -> bool:
    return any(map(_is_text, X.ravel()))


def _check_shape(X, name: str, min_rows: int) -> None:
    if X.ndim != 2:
        shapes = f"Reshape your data: {name}.reshape(-1, 1) for one column, (1, -1) for one row"
        hint = shapes if X.ndim == 1 else "flatten each point into one row"
        raise ValueError(
            f"{name} has {X.ndim} dimension(s), shape {tuple(X.shape)}. "
            f"Expected 2D array (n, d), got {X.ndim}D array instead. {hint}"
        )
    n, d = X.shape
    short = f"is too short: found {n} sample(s)"
    for found, least, said in ((d, 1, "has no columns: 0 feature(s)"), (n, min_rows, short)):
        if found < least:
            raise ValueError(
                f"{name} {said} (shape=({n}, {d})) while a minimum of {least} is required."
            )


def check_finite(X, name: str, gaps: bool = False) -> None:
    """Neither NaN, unless it may stand for a gap, nor inf, nor numbers whose squares overflow."""
    xp = array_namespace(X)
    X = xp.where(xp.isnan(X), xp.zeros_like(X), X) if gaps else X
    # one pass when all is well: NaN fails the comparison too
    if 0 in X.shape or bool(xp.max(xp.abs(X)) <= LARGEST):
        return
    for what, bad in (("NaN", xp.isnan(X)), ("inf", xp.isinf(X))):
        count = int(xp.sum(xp.astype(bad, xp.int64)))
        if count:
            raise ValueError(
                f"{name} contains {what} ({count} value(s)); remove or impute them first"
            )
    raise ValueError(
        f"{name} contains values beyond {LARGEST:g}, whose squares overflow; rescale its columns"
    )


def note_columns(estimator, X, reset: bool = True) -> None:
    """Number and names of the columns of X, kept on the estimator or compared with those kept.

    scikit-learn has no eye for names that are numbers; of these another order is refused.
    """
    table = as_table(X)
    validate_data(estimator, table, reset=reset, skip_check_array=True)
    if reset:
        estimator._columns = column_names(table)
    check_order(table, getattr(estimator, "_columns", None), "X", "the training X")


def as_new_points(estimator, X, name: str = "X") -> Array:
    """Rows that a fitted estimator is asked about, of as many columns as it was fitted to."""
    check_is_fitted(estimator)
    points = as_points(X, name, one_d=False)
    note_columns(estimator, X, reset=False)
    return points


def counted(n: int, noun: str) -> str:
    """'1 row', '2 rows'."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def check_lengths(n: int, m: int, first: str, second: str) -> None:
    """Two arguments that must have as many rows as each other."""
    if n != m:
        raise ValueError(
            f"{second} has {counted(m, 'row')} but {first} has {n}; they must be equal"
        )


def pairs_wanted(m: int, n: int, paired: bool | None) -> bool:
    """Whether answers are asked for pairs (y_i, x_i), or for all m rows y beside each of n rows x.

    Pairs, unless `paired` is False. None is pairs too, but for one version a table where there are
    not as many y as x, with a `FutureWarning`.
    """
    if paired not in (None, True, False):
        raise ValueError(f"paired is {paired!r}; True or False is needed")
    if paired is False:
        return False
    if m == n:
        return True
    found = f"Y has {counted(m, 'row')} but X has {n}"
    advice = f"{found}; for a table, a row for each x, ask with paired=False"
    if paired:
        raise ValueError(advice)
    warn_caller(f"{advice}: this will be an error", FutureWarning)
    return False


def check_columns(X, d: int, name: str, where: str) -> None:
    """Points must have the columns of the points they are compared with."""
    if X.shape[1] != d:
        raise ValueError(f"{name} has {counted(X.shape[1], 'column')} but {where} has {d}")


def check_order(X, names: Sequence[str] | None, name: str, where: str) -> None:
    """Columns of a table, or of an embedding, called as others are stand in the order of these."""
    own = X.labels.columns if hasattr(X, "labels") else column_names(X)
    found, known = ([] if those is None else list(those) for those in (own, names))
    if found != known and sorted(found) == sorted(known):
        raise ValueError(
            f"{name} has columns {found} but {where} has {known}; the same order is needed"
        )


def as_rows(
    X, d: int, name: str, where: str, names: Sequence[str] | None = None, **how: bool
) -> Array:
    """Points of d columns, as many as `where` has, in the order of its names."""
    check_order(X, names, name, where)
    points = as_points(X, name, **how)
    check_columns(points, d, name, where)
    return points


def as_row(x) -> Any:
    """A Series that names its entries as a row of a table; anything else as it is."""
    named = hasattr(x, "iloc") and x.ndim == 1 and all(isinstance(name, str) for name in x.index)
    return x.to_frame().T if named else x


def check_library(X, fitted, name: str, where: str = "the training data") -> None:
    """Arrays that meet must be of one library: none is converted behind the back."""
    found, needed = (array_namespace(A).__name__.rpartition(".")[2] for A in (X, fitted))
    if found != needed:
        raise ValueError(
            f"{name} is of {found} but {where} are of {needed}; convert {name} to "
            f"{needed} arrays, or fit on {found} arrays"
        )


def check_positive(value, name: str, *, zero: bool = False) -> float:
    """A finite positive number (or zero, when that has a meaning)."""
    bound = "non-negative" if zero else "positive"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; a {bound} number is needed")
    value = float(value)
    if not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{name} is {value}; a {bound} finite number is needed")
    return value


def as_each(values, k: int, name: str, *, zero: bool = False) -> np.ndarray:
    """A positive number (or zero, when that has a meaning), or one for each of k."""
    given = np.ravel(np.asarray(values, dtype=object))
    if len(given) not in (1, k):
        raise ValueError(
            f"{name} has {counted(len(given), 'value')}; one, or one for each of {k}, is needed"
        )
    return np.array([check_positive(value, name, zero=zero) for value in given])


def check_count(value, name: str, *, minimum: int = 1, maximum: float = np.inf) -> int:
    """A whole number of at least `minimum`, and at most `maximum`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not minimum <= value <= maximum:
        most = f" and at most {maximum}" if np.isfinite(maximum) else ""
        raise ValueError(
            f"{name} is {value!r}; a whole number of at least {minimum}{most} is needed"
        )
    return int(value)


def check_column(value, columns: int | Sequence[str], name: str = "column") -> int:
    """The number of one of the columns, given by number, or by name where names are known."""
    names = [] if isinstance(columns, int) else list(columns)
    if isinstance(value, str) and value in names:
        return names.index(value)
    last = (columns if isinstance(columns, int) else len(names)) - 1
    number = isinstance(value, Integral) and not isinstance(value, bool)
    if not number or not 0 <= int(value) <= last:
        known = f", or one of {names}," if names else ""
        raise ValueError(f"{name} is {value!r}; a column number from 0 to {last}{known} is needed")
    return int(value)


def check_level(level, name: str = "level") -> float:
    """The probability of an interval: between 0 and 1, neither of them."""
    if check_positive(level, name) >= 1:
        raise ValueError(f"{name} is {level}; a number between 0 and 1 is needed")
    return float(level)


def as_levels(q) -> np.ndarray:
    """Probabilities of quantiles: a number or a list, from 0 to 1."""
    levels = as_floats(q, "q")
    if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(f"q is {q!r}; a number between 0 and 1, or a list of them, is needed")
    return levels


def happens(event, points) -> Array:
    """Where an event happens: 0 or 1 at each of the points, (n,)."""
    wanted = "a function from points (n, d) to booleans (n,) is needed"
    if not callable(event):
        raise ValueError(f"event is {event!r}; {wanted}")
    found = as_floats(event(points), "event(points)")
    if tuple(found.shape) != (n := points.shape[0],):
        raise ValueError(f"event gives {tuple(found.shape)} at {n} points; {wanted}")
    if not bool(array_namespace(found).all((found == 0) | (found == 1))):
        raise ValueError(f"event gives numbers other than 0 and 1; {wanted}")
    return found


def check_target(y, name: str = "y") -> None:
    """An estimator that predicts y cannot do without, in words that scikit-learn looks for."""
    if y is None:
        raise ValueError(
            f"{name} is missing: the estimator requires {name} to be passed, but the target {name} "
            "is None"
        )


def as_pairs(estimator, X, y, name: str = "y", min_rows: int = 2) -> tuple[Array, Array]:
    """Rows of X and of a target y for `fit`, which notes the columns of X on the estimator."""
    points_x = as_points(X, "X", min_rows=min_rows, one_d=False)
    note_columns(estimator, X)
    check_target(y, name)
    points_y = as_points(y, name, n=points_x.shape[0])
    check_library(points_y, points_x, name, "the rows of X")
    return frozen(points_x), frozen(points_y)


def check_choice(value, name: str, choices: Iterable[str]) -> str:
    """One of a few words."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {choices}")
    return value


def generator(random_state) -> np.random.Generator:
    """A random generator from None, an integer seed, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as err:
        raise ValueError(
            f"random_state is {random_state!r}; None, a whole number of at least 0 or a numpy "
            "Generator is needed"
        ) from err


def frozen(A) -> Array:
    """A copy of `A` that refuses writing, where the library knows how."""
    A = array_namespace(A).asarray(A, copy=True)
    if isinstance(A, np.ndarray):
        A.flags.writeable = False
    return A


def column_names(X) -> list[str] | None:
    """Names of the columns of a DataFrame (a Series is one column), None for a plain array."""
    if hasattr(X, "columns"):  # pyarrow's are what they hold
        names = X.columns if hasattr(X, "iloc") else getattr(X, "column_names", X.columns)
        return [str(c) for c in names]
    if hasattr(X, "to_frame") and getattr(X, "name", None) not in (None, ""):
        return [str(X.name)]
    return None

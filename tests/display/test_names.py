"""Names of columns are drawn letter by letter, whatever formula they look like."""

from __future__ import annotations

import numpy as np
import pytest

import kernelmean as km
from kernelmean.display.style import literal

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.usefixtures("short_searches_throughout")
pd = pytest.importorskip("pandas")
is_math_text = pytest.importorskip("matplotlib.cbook").is_math_text
NAME = "rev_$k_of_$m"
OTHER = "a^b <= c_{"
GRID = np.linspace(0, 1, 5)
SQUARE = np.ones((5, 5))
STEPS = np.zeros((5, 2))
NEVER = np.zeros(5, dtype=bool)
ROWS = [slice(0, 5)]


def spread(names):
    return km.display.SpreadDisplay(
        times=np.arange(5),
        width=STEPS,
        reference=np.ones(2),
        missing=NEVER,
        collapsed=NEVER,
        names=names,
        level=0.95,
        sequences=ROWS,
    )


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(size=(60, 2)), columns=[NAME, OTHER])
    return X, X + 0.1 * rng.normal(size=X.shape)


@pytest.fixture(scope="module")
def model(table):
    return km.ConditionalDensity(bandwidth=0.1, reg=1e-2).fit(*table)


def drawn(display) -> set[str]:
    """Draw; the texts as matplotlib understands them."""
    display.plot()
    figure = plt.gcf()
    figure.canvas.draw()
    return {understood(text.get_text()) for text in figure.findobj(plt.Text)}


def understood(text: str) -> str:
    """The letters that are drawn, where the text has no formula."""
    return "(a formula)" if is_math_text(text) else text.replace(r"\$", "$")


@pytest.mark.parametrize("text", [NAME, OTHER, "$", "$$", r"\$", "$a$ and $b", "plain"])
def test_letters_are_kept(text):
    assert understood(literal(text)) == text


def test_conditional_densities(model, table):
    X, Y = table
    assert {NAME, f"{OTHER} = 0.2"} <= drawn(
        km.display.ConditionalDensityDisplay.from_estimator(
            model, pd.DataFrame([[0.5, 0.2], [0.5, 0.7]], columns=X.columns), Y
        )
    )
    assert {OTHER, NAME} <= drawn(
        km.display.DensityMapDisplay.from_estimator(model, X, Y, column=OTHER, n_grid=20)
    )
    first = pd.DataFrame([[0.5, 0.2]], columns=X.columns)
    contours = km.display.DensityContourDisplay.from_estimator(model, first, Y, n_grid=20)
    assert {NAME, OTHER, f"{NAME} = 0.5, {OTHER} = 0.2"} <= drawn(contours)


def test_legends_keep_names_that_begin_with_an_underscore():
    names = ["_x", "_$y_$"]
    emissions = (GRID, np.ones((2, 5)), np.full(2, 0.5), None, "y", names)
    for display in (spread(names), km.display.EmissionDisplay(*emissions)):
        texts = [understood(t.get_text()) for t in display.plot().ax_.get_legend().get_texts()]
        assert texts[0].startswith("\u200b_x")
        assert texts[1].startswith("\u200b_$y_$")


@pytest.mark.parametrize(
    ("display", "expected"),
    [
        (
            km.display.StructuralCurveDisplay(
                GRID, GRID, None, None, GRID, GRID, x_name=NAME, y_name=OTHER
            ),
            {NAME, OTHER},
        ),
        (
            km.display.TransitionDisplay(GRID, SQUARE, GRID, NAME),
            {f"{NAME} now", f"{NAME} one row later"},
        ),
        (
            km.display.ObservationDisplay(GRID, GRID, SQUARE, GRID, OTHER, NAME),
            {NAME, OTHER},
        ),
        (
            spread([NAME, OTHER]),
            {NAME, OTHER},
        ),
        (
            km.display.EmissionDisplay(
                GRID, np.ones((2, 5)), np.full(2, 0.5), None, NAME, [NAME, OTHER]
            ),
            {NAME, f"{NAME} (50%)", f"{OTHER} (50%)"},
        ),
        (
            km.display.EmissionImageDisplay(np.ones((2, 5, 5)), [NAME, OTHER]),
            {NAME, OTHER},
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "plot") else "",
)
def test_others(display, expected):
    assert expected <= drawn(display)

"""Colours, texts and legends that all displays share."""

import numpy as np

CURVE, PLAIN, DATA = "#0b5394", "#b45f06", "#888888"
TRUTH, GAP = "#222222", "#f3e9d8"
DRAWN = 2_000  # points in a picture, at most
LONG = 50  # letters of a name
ROOT = 0.65


def literal(text) -> str:
    r"""A name as matplotlib draws it letter by letter: without formulas between dollar signs.

    Of a long one the first letters, or it leaves no room for the picture.

    >>> print(literal("rev_$k_of_$m"), literal(60 * "a")[-3:])
    rev_\$k_of_\$m aa…
    """
    from matplotlib import rcParams

    short = str(text) if len(str(text)) <= LONG else f"{str(text)[: LONG - 1]}…"
    return short.replace("$", r"\$") if rcParams["text.parse_math"] else short


def in_legend(name) -> str:
    """A name that a legend shows: matplotlib leaves out labels that begin with an underscore."""
    return f"\u200b{name}" if str(name).startswith("_") else str(name)


def shade(axes, grid_x: np.ndarray, grid_y: np.ndarray, density: np.ndarray) -> None:
    """A density (m, k) in blue, over all of the axes; a root, or narrow peaks outshine the rest."""
    from matplotlib.colors import LinearSegmentedColormap

    blues = LinearSegmentedColormap.from_list("density", ["#ffffff", "#9dc3e6", CURVE])
    x, y = grid_x[[0, -1]], grid_y[[0, -1]]
    place = {"origin": "lower", "aspect": "auto", "extent": (*x, *y), "interpolation": "bilinear"}
    axes.imshow(density.T**ROOT, cmap=blues, alpha=0.85, **place)
    axes.set(xlim=x, ylim=y)


def legend_above(axes) -> None:
    """One entry for each label, however many lines carry it; above the power of ten, if any."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(map(literal, labels), handles, strict=True))
    ticks = axes.yaxis.get_major_formatter()
    ticks.set_locs(axes.get_yticks())
    pad = 2.0 if ticks.get_offset() else 0.2
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": pad}
    axes.legend(
        once.values(), once.keys(), frameon=False, fontsize=8, ncols=3, handlelength=1.5, **place
    )


def time_axis(axes, times: np.ndarray) -> None:
    """Name the horizontal axis, and write dates in few words."""
    axes.set_xlabel("time")
    if times.dtype.kind == "M":
        from matplotlib.dates import ConciseDateFormatter

        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))

"""Sphinx configuration; built by ``make docs`` with every warning an error."""

from __future__ import annotations

import os
import re
import runpy
from html import escape
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from xml.etree import ElementTree

# Examples are run while the pages are built, two at a time: no window.
os.environ.setdefault("MPLBACKEND", "Agg")

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import kernelmean

project = "kernelmean"
author = "The kernelmean developers"
project_copyright = "2026, the kernelmean developers"
version = release = kernelmean.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.md5"]
templates_path = ["_templates"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
# What needs other packages has a page wherever the pages are built.
autodoc_mock_imports = [p for p in ("torch", "skada", "skpro", "sktime") if find_spec(p) is None]
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "doc_module": ("kernelmean",),
    "backreferences_dir": "generated/backreferences",
    "min_reported_time": 60,
    "parallel": 2,
}

html_theme = "furo"
html_title = "kernelmean"
html_static_path = ["_static"]
html_css_files = ["kernelmean.css"]
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "sidebar/versions.html", "sidebar/search.html"),
        *("sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/scroll-end.html"),
    ]
}
html_math_renderer = "mathml"  # drawn by the browser itself: no script, no network

SIZES = re.compile(r"\\[bB]ig(?![A-Za-z])")  # brackets of MathML grow by themselves
MATHML = "http://www.w3.org/1998/Math/MathML"
ACCENTS = set("ˉˆ˜~^¯")
BARS = re.compile(r"\|(\S[^|]*\S|\S)\|")
RECORDS = ("measured", "ablations")  # to look things up in: what is long there is folded
LONG, HEAD = 330, 110  # letters of what is folded, and of its head


def skip_inherited(app, what, name, obj, skip, options):
    """Members that scikit-learn brings are described by scikit-learn."""
    owner = getattr(obj, "fget", obj)
    module = getattr(owner, "__module__", None)
    return skip or (module is not None and not module.startswith("kernelmean"))


def escape_bars(app, what, name, obj, options, lines):
    """|x| in a formula is an absolute value, not a reStructuredText substitution."""
    lines[:] = [line if ">>>" in line else BARS.sub(r"\|\1\|", line) for line in lines]


def indices_beside(mathml):
    """The index of a letter with an accent stands beside it; docutils puts it underneath."""
    ElementTree.register_namespace("", MATHML)
    tree = ElementTree.fromstring(mathml.replace("&ApplyFunction;", "\u2061"))
    for both in list(tree.iter(f"{{{MATHML}}}munderover")):
        letter, index, accent = both
        if accent.text in ACCENTS:
            both.clear()
            both.tag = f"{{{MATHML}}}msub"
            over = ElementTree.SubElement(both, f"{{{MATHML}}}mover", accent="true")
            over.extend([letter, accent])
            both.append(index)
    return ElementTree.tostring(tree, encoding="unicode")


def draw_math(translator, node):
    """A formula as MathML; one that cannot be read fails the build."""
    block = isinstance(node, nodes.math_block)
    tex = SIZES.sub("", node.astext()).replace(r"\dots", r"\ldots")
    translator.body.append(indices_beside(tex2mathml(tex, as_block=block)))
    raise nodes.SkipNode


def fold_records(app, doctree, page):
    """A long item, or cell of a table, is its first words until it is opened."""
    if page.split("/")[0] not in RECORDS or app.builder.format != "html":
        return
    for node in (*doctree.findall(nodes.list_item), *doctree.findall(nodes.entry)):
        text = " ".join(part.replace("\\", "") for part in node.findall(nodes.Text))
        if len(text) > LONG:
            head = f"<details><summary>{escape(shorten(text, HEAD, placeholder=' …'))}</summary>"
            ends = [nodes.raw("", html, format="html") for html in (head, "</details>")]
            node.children = [ends[0], *node.children, ends[1]]


def draw_pictures(app):
    """The picture of the house, from the code as it is, and those of speed, from what was kept."""
    here = Path(__file__).parent
    runpy.run_path(str(here / "house.py"))["draw"](here / "images" / "house.svg")
    runpy.run_path(str(here / "speed.py"))["draw"](here / "generated")


def setup(app):
    app.add_html_math_renderer("mathml", (draw_math, None), (draw_math, None))
    app.connect("builder-inited", draw_pictures)
    app.connect("doctree-resolved", fold_records)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-docstring", escape_bars, priority=100)

"""HTML pages that need nothing but themselves, made of the blocks of a report."""

import base64
import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from ..core.version import __version__
from .report import Figure, Report, Section, anchor


def html(report: Report, *more: Section) -> str:
    """The page as one string, with no reference to anything outside it."""
    now = datetime.now(UTC).strftime("%d %B %Y")
    return _template().render(
        report=report, sections=[*report.sections, *more], version=__version__, date=now
    )


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kernelmean.app"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"inline": _inline, "source": _source, "anchor": anchor}
    return environment.get_template("page.html")


def _source(figure: Figure) -> str:
    """The drawing as an address that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(figure.svg).decode()}"


def _inline(text: str) -> Any:
    """Escape `text`, then set what stands between backquotes as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

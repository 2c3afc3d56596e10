"""The jobs of `kernelmean demo`: one file each, with a `TITLE` and a `run(quick)`."""

from __future__ import annotations

JOBS = ("fish", "schooling", "engel", "influenza", "approval", "sp500", "volatility")

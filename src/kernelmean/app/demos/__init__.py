"""The jobs of `kernelmean demo`: one file each, with a `JOB`."""

from __future__ import annotations

JOBS = ("savings", "sunspots", "pacific", "influenza", "sp500", "schooling")

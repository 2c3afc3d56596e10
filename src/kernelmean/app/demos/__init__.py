"""The jobs of `kernelmean demo`: one file each, with a `JOB`."""

from __future__ import annotations

# The quickest first: its picture is there while the others are at work.
JOBS = ("schooling", "savings", "sunspots", "pacific", "influenza", "sp500")

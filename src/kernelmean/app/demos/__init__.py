"""The jobs of `kernelmean demo`: one file each, listed here in the order of the page."""

from __future__ import annotations

from ..demos import approval, engel, fish, influenza, schooling, sp500, volatility
from .job import Job

JOBS: tuple[Job, ...] = (
    fish.JOB,
    schooling.JOB,
    engel.JOB,
    influenza.JOB,
    approval.JOB,
    sp500.JOB,
    volatility.JOB,
)

"""The jobs of `kernelmean demo`: one file each, listed here in the order of the page."""

from __future__ import annotations

from . import approval, fish, influenza, schooling
from .job import Job

JOBS: tuple[Job, ...] = (fish.JOB, schooling.JOB, influenza.JOB, approval.JOB)

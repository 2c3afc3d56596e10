"""How many BLAS threads a piece of work is given."""

from __future__ import annotations

from threadpoolctl import threadpool_limits


def one_thread() -> threadpool_limits:
    """One BLAS thread, for work on matrices so small that threads only wait for each other."""
    return threadpool_limits(1, user_api="blas")

"""Kernels: positive definite functions that know their lengthscale and their density normaliser.

What a file lists in `__all__` is public, here and as `kernelmean.NAME`.
"""

from . import base, gaussians, manifold, named, other, radial
from .base import *
from .base import NAMED, TUNED, Product, Sum
from .gaussians import *
from .manifold import *
from .named import *
from .named import (
    FromFunction,
    FromSklearn,
    OnColumns,
    check_size,
    fitted_kernel,
    gaussian_along_lines,
    is_tuned,
)
from .other import *
from .radial import *

__all__ = [k for file in (base, gaussians, manifold, named, other, radial) for k in file.__all__]

"""Kernels: positive definite functions that know their lengthscale and their density normaliser.

What a file lists in `__all__` is public, here and as `kernelmean.NAME`.
"""

from . import base, columns, correlated, fourth_order, manifold, named, other, radial
from .base import *
from .base import NAMED, TUNED, Product, Sum
from .columns import OnColumns
from .correlated import *
from .fourth_order import *
from .manifold import *
from .named import *
from .named import check_size, fitted_kernel, is_tuned
from .other import *
from .other import FromFunction, FromSklearn
from .radial import *

__all__ = [
    *(base.__all__ + correlated.__all__ + fourth_order.__all__ + manifold.__all__),
    *(named.__all__ + other.__all__ + radial.__all__),
]

"""Kernels: positive definite functions that know their lengthscale and their density normaliser."""

from .base import Kernel, Product, Sum
from .columns import OnColumns
from .fourth_order import Gaussian4
from .manifold import Periodic, Rotation
from .named import as_kernel, check_size, fitted_kernel, on_columns
from .other import Delta, Frobenius, FromFunction, FromSklearn, Linear, Precomputed
from .radial import Gaussian, Laplace, Matern, median_lengthscale

__all__ = [
    "Delta",
    "Frobenius",
    "FromFunction",
    "FromSklearn",
    "Gaussian",
    "Gaussian4",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "OnColumns",
    "Periodic",
    "Precomputed",
    "Product",
    "Rotation",
    "Sum",
    "as_kernel",
    "check_size",
    "fitted_kernel",
    "median_lengthscale",
    "on_columns",
]

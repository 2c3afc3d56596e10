"""Learned features: a network whose outputs predict the embedding of the latent (Xu 2022 §3.3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import Array, arrays, checks, parameters
from ..core.extras import require
from ..core.moments import row_blocks
from ..core.progress import Verbose, track
from ..kernels import Kernel, fitted_kernel
from .base import FeatureMap
from .fourier import RandomFourier, even
from .landmarks import Nystroem
from .training import Training, as_training, perceptron, seeded

torch = require("torch", "kernelmean.Neural", "pip install 'torch>=2.3', or 'kernelmean[nn]'")
nn = torch.nn

FEWEST = 10  # pairs
BLOCK = 1024  # rows per evaluation of the network
HIDDEN = 256  # width of the hidden layers of the default networks
CHANNELS = (32, 64, 64)  # of the default convolutional network; each layer halves the image
OLD = {name: ("training", parameters.into(as_training, name)) for name in Training.ALLOWED}
OLD["epochs"] = OLD.pop("max_epochs")


def joint_loss(Psi, targets, shares, reg: float) -> Any:
    """ℓ = Σ_i d_i‖φ(z_i)‖² − ‖L⁻¹ΨᵀDΦ‖_F² with L Lᵀ = ΨᵀDΨ + λI, D = diag(d) (MATH §5).

    It is the least over E of Σ_i d_i‖φ(z_i) − E*ψ(x_i)‖² + λ‖E‖², a function of the features only.

    Parameters
    ----------
    Psi : tensor of shape (n, r)
        Features ψ(x_i).
    targets : tensor of shape (n, q)
        Features φ(z_i) of the latents.
    shares : tensor of shape (n,)
        d_i ≥ 0: 1/n each, or normalised importance weights.
    reg : float or tensor
        λ, on the scale of the shares.
    """
    weighted = shares[:, None] * Psi
    A = weighted.T @ Psi + reg * torch.eye(Psi.shape[1], dtype=Psi.dtype, device=Psi.device)
    L = torch.linalg.cholesky_ex(A).L  # NaN in, NaN out: the training loop looks at the loss
    explained = torch.linalg.solve_triangular(L, weighted.T @ targets, upper=False)
    return shares @ (targets**2).sum(1) - (explained**2).sum()


def sides(value, name: str) -> None:
    """Channels, height and width of an image."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise ValueError(f"{name} is {value!r}; (channels, height, width) is needed")
    parameters.each(parameters.count())(value, name)


@parameters.moved(**OLD)
@dataclass(eq=False, repr=False)
class Neural(FeatureMap):
    """Coordinates ψ_θ(x) of observations, learned from pairs (x_i, z_i) of observation and latent.

    θ minimises, over minibatches, the regularised error of predicting the latent's features φ(z)
    linearly from ψ_θ(x), with the best linear map in closed form (`joint_loss`). Use it where
    observations are images or other high-dimensional functions of the latent, for which no
    distance between observations is known to matter.

    `KernelBayes(features=Neural())` trains a copy on its pairs. A trained map (`fit_pairs`) is
    a feature map like any other, and stays trained when estimators clone it.

    Parameters
    ----------
    network : torch.nn.Module, callable or None
        Maps a batch of standardised observations, (batch, d) or ``(batch, *image_shape)``, to
        features (batch, r). A module is copied; a callable is called without arguments, once
        torch's generator is seeded, and returns a module. None is two hidden layers of 256 for
        vectors and a small convolutional network for images.
    n_features : int
        r of the default networks.
    image_shape : tuple (channels, height, width), optional
        Rows of X are images of this shape, flattened in this order.
    reg : float
        λ of the joint loss, in units of the features' mean square.
    n_targets : int
        Random Fourier features of the latent; kernels with no spectrum get Nyström coordinates.
    training : Training, optional
        Epochs, batches and steps, and when to stop; None is `Training()`.
    device : "auto", str or torch.device
        "auto" is CUDA where there is a device, else the processor. On the processor the same seed
        gives the same features.
    random_state : int, Generator, RandomState or None
    verbose : bool or callable
        Progress over epochs, as in `progress.track`.

    Attributes
    ----------
    rank_ : int
        r.
    kernel_ : Kernel
        k(x, x') = ψ(x)ᵀψ(x'), scaled to have mean one on the diagonal of the training pairs.
    losses_ : array
        Held-out loss ``Σd_i‖φ(z_i) − E*ψ(x_i)‖² / Σd_i`` before training and after each epoch.
    best_epoch_ : int
        The epoch whose weights were kept, the one of the least held-out loss.
    loss_ : float
        That loss.
    weights_ : dict of arrays
        The state of the network.

    References
    ----------
    Xu, Chen, Doucet, Gretton (2022), Importance weighted kernel Bayes' rule, §3.3.

    Examples
    --------
    >>> import numpy as np, kernelmean as km
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.uniform(-1, 1, (200, 1))
    >>> X = np.sin(Z * np.arange(1, 9)) + 0.1 * rng.normal(size=(200, 8))
    >>> psi = km.Neural(n_features=16, training=km.Training(max_epochs=20)).fit_pairs(X, Z)
    >>> psi.transform(X).shape, bool(psi.loss_ < psi.losses_[0])
    ((200, 16), True)
    """

    ALLOWED: ClassVar = {
        "n_features": parameters.count(),
        "image_shape": parameters.optional(sides),
        "reg": parameters.positive(),
        "n_targets": even,
        "training": parameters.optional(parameters.options(Training)),
        "device": lambda value, name: _device(value),
    }
    learns_from_pairs = True

    network: Any = None
    n_features: int = 64
    image_shape: Sequence[int] | None = None
    reg: float = 1e-3
    n_targets: int = 500
    training: Training | None = None
    device: Any = "auto"
    random_state: Any = 0
    verbose: Verbose = False

    def fit_pairs(self, X, Z, kernel_z="gaussian", weights=None) -> Neural:
        """Train on pairs of observation and latent.

        An interruption (Ctrl-C) leaves the map trained, with the best weights so far; before the
        first epoch has begun, and by what is refused, it stays as it was.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Observations; images as flattened rows.
        Z : array or DataFrame of shape (n,) or (n, d_z)
            Latents.
        kernel_z : Kernel, str, scikit-learn kernel or callable
            Kernel of the latent, whose features are predicted.
        weights : array of shape (n,), optional
            Importance d_i ≥ 0 of each pair, up to a factor (the density ratio of a prior).
        """
        parameters.check_parameters(self)
        points_x = arrays.to_numpy(checks.as_points(X, "X", min_rows=FEWEST))
        points_z = arrays.to_numpy(checks.as_points(Z, "Z", n=len(points_x)))
        weights = _check_weights(weights, points_x.shape[0])
        kernel_z = fitted_kernel(kernel_z, points_z, names=checks.column_names(Z), name="kernel_z")
        self._check_image(points_x.shape[1])
        new = copy.copy(self)
        new._match_names(X, reset=True)
        used = weights > 0
        points_x, points_z, weights = points_x[used], points_z[used], weights[used]
        new.n_features_in_ = points_x.shape[1]
        new.centre_, new.width_ = _standards(points_x, self.image_shape)
        rng = checks.generator(self.random_state)
        best = _Best()
        try:
            new._train(points_x, self._targets(points_z, kernel_z, rng), weights, rng, best)
        finally:
            if best.losses:
                new._keep(best)
                self.__dict__ = new.__dict__
        return self

    def fit_transform(self, X, y=None, kernel=None) -> Any:
        """The learned coordinates of `X`: a trained map has nothing left to choose.

        Raises
        ------
        ValueError
            If the map is untrained: it learns from pairs, not from `X` alone.
        """
        if not self.trained:
            raise ValueError(
                "these Neural features are untrained, and they learn from pairs: call "
                "fit_pairs(X, Z) first, or hand them to KernelBayes, which does"
            )
        return self.transform(X)

    @property
    def trained(self) -> bool:
        """Whether `fit_pairs` has been called."""
        return hasattr(self, "weights_")

    def __sklearn_is_fitted__(self) -> bool:
        return self.trained

    @property
    def kernel_(self) -> Kernel:
        """k(x, x') = ψ(x)ᵀψ(x')."""
        check_is_fitted(self)
        return FeatureKernel(self)

    @property
    def network_(self) -> Any:
        """The trained torch module: standardised observations to features, before scaling."""
        check_is_fitted(self)
        state = {name: torch.from_numpy(np.array(w)) for name, w in self.weights_.items()}
        with seeded(0):
            network = self._build(self.rank_)
        network.load_state_dict(state)
        return network.eval()

    @classmethod
    def from_version1(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The state of today of what version 1 has saved."""
        return parameters.with_old_keywords(cls, state)

    def __sklearn_clone__(self) -> Neural:
        return self if self.trained else super().__sklearn_clone__()

    def _transform(self, X) -> Array:
        device = _device(self.device)
        network = self.network_.to(device)
        blocks = row_blocks(arrays.to_numpy(X), rows=BLOCK)
        features = [self._evaluate(network, block, device).cpu().numpy() for (block,) in blocks]
        return arrays.like(np.concatenate(features) / self.scale_, X)

    # ------------------------------------------------------------ the network

    def _build(self, r: int) -> Any:
        """The network untrained, on the processor; default ones with r outputs."""
        if self.network is None and self.image_shape is None:
            return perceptron([self.n_features_in_, HIDDEN, HIDDEN], r)
        if self.network is None:
            return convolutions(self.image_shape, r)
        if isinstance(self.network, torch.nn.Module):
            return copy.deepcopy(self.network)
        made = self.network() if callable(self.network) else self.network
        if not isinstance(made, torch.nn.Module):
            raise ValueError(
                f"network is or returns {made!r}; a torch.nn.Module, a callable that returns one, "
                "or None is needed"
            )
        return made

    def _inputs(self, X: np.ndarray, device) -> Any:
        """Rows of X as the network takes them: standardised, in single precision, as images."""
        rows = torch.as_tensor((X - self.centre_) / self.width_, dtype=torch.float32, device=device)
        return rows if self.image_shape is None else rows.reshape(-1, *self.image_shape)

    def _evaluate(self, network, X: np.ndarray, device) -> Any:
        """Features of a block of rows, without gradients, in double precision."""
        network.eval()
        with torch.no_grad():
            return network(self._inputs(X, device)).double()

    # ------------------------------------------------------------ training

    def _targets(self, Z: np.ndarray, kernel_z: Kernel, rng: np.random.Generator) -> np.ndarray:
        """φ(z_i): random Fourier features, or coordinates where the kernel has no spectrum."""
        try:
            kernel_z.spectrum(1, Z.shape[1], np.random.default_rng(0))
        except ValueError:
            return Nystroem().fit_transform(Z, kernel_z)
        return RandomFourier(self.n_targets, rng).fit_transform(Z, kernel_z)

    def _train(self, X, targets, weights, rng: np.random.Generator, best: _Best) -> None:
        device = _device(self.device)
        pairs = _Pairs(self, X, targets, weights, device)
        train, held_out = _split(len(X), as_training(self.training).validation_fraction, rng)
        with seeded(int(rng.integers(2**31)), device):
            network = self._build(self.n_features).to(device)
            self.rank_ = _output_width(network, pairs)
            best.see(*pairs.held_out_loss(network, train, held_out), network)
            if best.failed:
                raise ValueError("the network returns NaN, inf or only zeros before any training")
            self._descend(network, pairs, train, held_out, rng, best)

    def _descend(self, network, pairs, train, held_out, rng, best) -> None:
        """Epochs of minibatch descent until the held-out loss has stopped falling."""
        how = as_training(self.training)
        steps = {"lr": how.learning_rate, "weight_decay": how.weight_decay}
        optimiser = torch.optim.AdamW(network.parameters(), **steps)
        for _ in track(range(how.max_epochs), None, "Neural features", self.verbose):
            network.train()
            batches = max(1, round(len(train) / how.batch_size))
            for rows in np.array_split(rng.permutation(train), batches):
                optimiser.zero_grad()
                pairs.loss(network, rows).backward()
                optimiser.step()
            best.see(*pairs.held_out_loss(network, train, held_out), network)
            if best.failed or best.age >= how.patience:
                break

    def _keep(self, best: _Best) -> None:
        """Make the best network so far the fitted one."""
        self.weights_ = {name: np.asarray(w.cpu()) for name, w in best.state.items()}
        self.losses_ = np.asarray(best.losses)
        self.loss_, self.best_epoch_, self.scale_ = best.loss, best.epoch, best.scale
        if best.failed:
            checks.warn_numerical(
                f"training met a loss that is not finite in epoch {len(best.losses)}; the weights "
                f"of epoch {best.epoch} are kept: a smaller learning_rate may help",
            )

    def _check_image(self, d: int) -> None:
        if self.image_shape is not None and math.prod(self.image_shape) != d:
            raise ValueError(
                f"image_shape is {tuple(self.image_shape)}, {math.prod(self.image_shape)} numbers, "
                f"but X has {d} columns: rows must be flattened images"
            )


@dataclass(frozen=True)
class FeatureKernel(Kernel):
    """k(x, x') = ψ(x)ᵀψ(x') for trained features ψ."""

    features: Neural

    def gram_of(self, X, Y) -> Array:
        return self.features.transform(X) @ self.features.transform(Y).T

    def diag_of(self, X) -> Array:
        Psi = self.features.transform(X)
        return arrays.namespace(Psi).sum(Psi * Psi, axis=-1)


# ---------------------------------------------------------------- training, part by part


class _Pairs:
    """The pairs of one training: losses on chosen rows, for networks on a device."""

    def __init__(self, features: Neural, X, targets, weights, device):
        self.features, self.X, self.device = features, X, device
        self.targets = torch.as_tensor(targets, dtype=torch.float32, device=device)
        self.weights = torch.tensor(weights, dtype=torch.float64, device=device)

    def known(self, rows) -> tuple:
        """Targets and weights of some rows, in double precision."""
        index = torch.as_tensor(rows, device=self.device)
        return self.targets[index].double(), self.weights[index]

    def loss(self, network, rows) -> Any:
        """Joint loss on a batch, λ in units of the mean square of the features.

        Without the unit the network could make λ as small as it liked by growing its outputs.
        """
        targets, weights = self.known(rows)
        shares = weights / weights.sum()
        Psi = network(self.features._inputs(self.X[rows], self.device)).double()
        unit = shares @ (Psi**2).sum(1)
        return joint_loss(Psi, targets, shares, self.features.reg * unit)

    def held_out_loss(self, network, train, held_out) -> tuple[float, float]:
        """Σ d_i‖φ(z_i) − E*ψ(x_i)‖² on the rows held out, E of the others; the features' scale."""
        A, C = self._moments(network, train)
        unit = A.trace()
        ridge = A + self.features.reg * unit * torch.eye(len(A), dtype=A.dtype, device=A.device)
        E = torch.cholesky_solve(C, torch.linalg.cholesky_ex(ridge).L)
        targets, weights = self.known(held_out)
        Psi = torch.cat([block for _, block in self.features_of(network, held_out)])
        missed = weights @ ((targets - Psi @ E) ** 2).sum(1)
        return float(missed / weights.sum()), float(unit.sqrt())

    def _moments(self, network, rows) -> tuple:
        """ΨᵀDΨ and ΨᵀDΦ over some rows, Σ_i d_i = 1."""
        A, C, total = 0.0, 0.0, 0.0
        for block, Psi in self.features_of(network, rows):
            targets, weights = self.known(block)
            weighted = weights[:, None] * Psi
            A, C = A + weighted.T @ Psi, C + weighted.T @ targets
            total += weights.sum()
        return A / total, C / total

    def features_of(self, network, rows) -> Iterator[tuple]:
        """Blocks of rows, each with its features."""
        for some in arrays.slices(len(rows), BLOCK):
            yield rows[some], self.features._evaluate(network, self.X[rows[some]], self.device)


class _Best:
    """The weights of the least held-out loss seen, and how long ago that was."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.loss = math.inf

    def see(self, loss: float, scale: float, network) -> None:
        """Take note of the network after one more epoch."""
        self.failed = not math.isfinite(loss)
        if self.failed:
            return
        self.losses.append(loss)
        if loss < self.loss:
            self.loss, self.scale, self.epoch = loss, scale, len(self.losses) - 1
            self.state = {name: w.detach().clone() for name, w in network.state_dict().items()}

    @property
    def age(self) -> int:
        return len(self.losses) - 1 - self.epoch


def _split(n: int, fraction: float, rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and rows held out."""
    rows = rng.permutation(n)
    size = min(max(1, round(fraction * n)), n - 2)
    return rows[size:], rows[:size]


def _output_width(network, pairs: _Pairs) -> int:
    ((_, Psi),) = pairs.features_of(network, np.arange(2))
    if Psi.ndim != 2 or Psi.shape[0] != 2:
        raise ValueError(
            f"network returned shape {tuple(Psi.shape)} for a batch of 2 observations; features "
            "(2, r) are needed"
        )
    return int(Psi.shape[1])


def _check_weights(weights, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    weights = arrays.to_numpy(checks.as_vector(weights, "weights", n=n))
    if weights.min() < 0 or np.count_nonzero(weights) < FEWEST:
        raise ValueError(
            f"weights has {np.sum(weights < 0)} negative and {np.sum(weights > 0)} positive "
            f"entries; non-negative ones, at least {FEWEST} of them positive, are needed"
        )
    return weights


def _standards(X: np.ndarray, image_shape) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, or of each channel of images, per column."""
    channels = X.shape[1] if image_shape is None else image_shape[0]
    pixels = X.reshape(X.shape[0], channels, -1)
    centre, width = pixels.mean(axis=(0, 2)), pixels.std(axis=(0, 2))
    # a constant column has a width of rounding error
    width = np.where(width > 1e-12 * np.abs(centre), width, 1.0)
    return np.repeat(centre, pixels.shape[2]), np.repeat(width, pixels.shape[2])


# ---------------------------------------------------------------- torch


def convolutions(image_shape, r: int) -> Any:
    """The default network for images."""
    (c, h, w), layers = image_shape, []
    for width in CHANNELS:
        layers += [nn.Conv2d(c, width, 3, stride=2, padding=1), nn.ReLU()]
        c, h, w = width, (h + 1) // 2, (w + 1) // 2
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(c * h * w, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, r)
    )


def _device(device) -> Any:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as err:
        raise ValueError(f"device is {device!r}; 'auto', 'cpu' or 'cuda' is needed") from err
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}, but torch finds no CUDA device; set 'cpu'")
    return found

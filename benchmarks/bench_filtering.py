"""KernelBayesFilter against the dense recursions, and against a particle filter given the truth."""

from __future__ import annotations

import numpy as np
from _harness import Measured, Table, arguments, measure, ratio
from scipy.linalg import solve

import kernelmean as km

LEARN, TRACK = 1000, 3000  # seeds of the training and of the test sequence
PARTICLES = 2_000


# ---------------------------------------------------------------- the data
def oscillation(n: int, seed: int) -> km.datasets.Trajectory:
    """A noisy point that goes round a wavy circle: two coordinates of state and observation."""
    return km.datasets.make_rotation(n, "oscillation", random_state=seed)


def mse(means, truth) -> float:
    """Squared error summed over the coordinates, averaged over time."""
    return float(np.mean(np.sum((means - truth) ** 2, axis=1)))


def particle_filter(steps: int) -> np.ndarray:
    """Filtered means by a bootstrap filter that knows the law: what nobody beats by much."""
    test, rng = oscillation(steps, TRACK), np.random.default_rng(0)
    model, means = test.model, np.empty((steps, 2))
    Z = oscillation(PARTICLES, LEARN).Z
    for t, x in enumerate(test.X):
        Z = model.transition(Z) + model.state_noise * rng.standard_normal(Z.shape)
        likelihood = np.exp(-np.sum((x - Z) ** 2, axis=1) / (2 * model.noise**2)) + 1e-300
        weights = likelihood / likelihood.sum()
        means[t] = weights @ Z
        Z = Z[rng.choice(PARTICLES, PARTICLES, p=weights)]
    return means


# ---------------------------------------------------------------- the jobs
def fit(train, settings: dict) -> km.KernelBayesFilter:
    return km.KernelBayesFilter(**settings).fit(train.X, train.Z)


def rows(T: int, settings: dict) -> tuple:
    return oscillation(T, LEARN), settings


def learn(train, settings: dict) -> None:
    fit(train, settings)  # the model stays here: sending it back would cost the parent memory


def chosen(train, settings: dict) -> dict:
    """The regularisers that the fit settles on, to be handed to others."""
    model = fit(train, settings)
    names = ("reg", "reg_prior", "reg_transition")
    return {name: getattr(model, f"{name}_") for name in names}


def fitted(T: int, steps: int, settings: dict) -> tuple:
    return fit(*rows(T, settings)), oscillation(steps, TRACK).X


def tracked(model, X, lengths=None) -> np.ndarray:
    return model.filter(X, lengths).mean()


def smoothed(model, X) -> np.ndarray:
    return model.smooth(X).mean()


def streamed(model, X) -> np.ndarray:
    belief, means = model.start(), []
    for x in X:
        means.append(belief.predict().update(x).mean() if means else belief.update(x).mean())
    return np.array(means)


def together(T: int, count: int, steps: int) -> tuple:
    return *fitted(T, count * steps, {}), [steps] * count


def one_by_one(model, X, lengths) -> np.ndarray:
    return np.concatenate([model.filter(part).mean() for part in np.split(X, len(lengths))])


def tune(train, _) -> dict:
    model = km.KernelBayesFilter(inference="kbr").tune(train.X, train.Z)
    return {name: getattr(model, name) for name in ("kernel_x", "kernel_z", "reg", "reg_smoother")}


# ---------------------------------------------------------------- the dense recursions
class Dense:
    """Weights on all training rows, by n × n matrices; what no step changes is made once.

    The shares of the rows in the next prediction are β = Mw, M = (K_Z + nηI)⁻¹ K_{Z,Z₊}
    (K_{Z₋} + Nλ'I)⁻¹ K_{Z₋,Z} for N consecutive pairs, so that a step is one product and the solve
    of Bayes' rule: by Xu 2022, Algorithm 2 on the rows with a positive share, or by Fukumizu
    2013, eq. 14.
    """

    def __init__(self, train, X, rule: str, regs: dict):
        n, Z = train.Z.shape[0], train.Z
        kernel_x = km.Gaussian().resolve(train.X)
        K = km.Gaussian().resolve(Z).scaled(0.5)(Z)
        pairs = K[:-1, :-1] + (n - 1) * regs["reg_transition"] * np.eye(n - 1)
        onward = K[:, 1:] @ solve(pairs, K[:-1, :], assume_a="pos")
        shares = K + n * regs["reg_prior"] * np.eye(n)
        self.M = solve(shares, onward, assume_a="pos")
        self.first = solve(shares, K.mean(axis=1), assume_a="pos")
        self.G, self.K_new = kernel_x(train.X), kernel_x(train.X, X)
        self.Z, self.rule, self.reg = Z, rule, regs["reg"]

    def track(self) -> np.ndarray:
        beta, means = self.first, []
        for k in self.K_new.T:
            w = (self._importance if self.rule == "importance" else self._squared)(beta, k)
            means.append(w @ self.Z / w.sum())
            beta = self.M @ w
        return np.array(means)

    def _importance(self, beta, k) -> np.ndarray:
        (rows,) = np.nonzero(beta > 0)
        root = np.sqrt(beta[rows])
        A = root[:, None] * self.G[np.ix_(rows, rows)] * root
        A[np.diag_indices(len(rows))] += self.reg
        w = np.zeros(len(beta))
        w[rows] = root * solve(A, root * k[rows], assume_a="pos", overwrite_a=True)
        return w

    def _squared(self, beta, k) -> np.ndarray:
        B = beta[:, None] * self.G
        A = B @ B
        A[np.diag_indices(len(beta))] += self.reg
        return B @ solve(A, beta * k, overwrite_a=True)


def dense(T: int, steps: int, rule: str, regs: dict) -> tuple[Dense]:
    return (Dense(oscillation(T, LEARN), oscillation(steps, TRACK).X, rule, regs),)


# ---------------------------------------------------------------- the tables
def growing(sizes: dict[str, list[int]], steps: int) -> None:
    truth = oscillation(steps, TRACK).Z
    floor = mse(measure(particle_filter, steps, repeats=1).result, truth)
    table = Table(
        f"Everything at its default: {steps} steps (squared error of a particle filter that "
        f"knows the law: {floor:.4f})",
        *["rule      ", "T", "fit s", "ms a step", "smoothing too", "peak MB", "error   "],
        "and smoothed",
    )
    for rule, Ts in sizes.items():
        for T in Ts:
            settings = {"rule": rule}
            learned = measure(learn, T, settings, setup=rows, repeats=1)
            track = measure(tracked, T, steps, settings, setup=fitted)
            back = measure(smoothed, T, steps, settings, setup=fitted, repeats=1)
            times = [1e3 * job.seconds / steps for job in (track, back)]
            errors = [f"{mse(job.result, truth):.4f}" for job in (track, back)]
            table.row(rule, T, learned.seconds, *times, track.peak_mb, *errors)


def against_dense(T: int, steps: dict[str, int]) -> None:
    table = Table(
        f"T = {T:,}, against n x n matrices at the regularisers of the default",
        *["rule      ", "steps", "ms a step", "streaming", "dense ms", "dense / ours"],
        *["MB", "its MB", "error   ", "its error", "error ratio"],
    )
    for rule, count in steps.items():
        regs = measure(chosen, T, {"rule": rule}, setup=rows, repeats=1).result
        ours = measure(tracked, T, count, {"rule": rule}, setup=fitted)
        live = measure(streamed, T, count, {"rule": rule}, setup=fitted)
        slow = measure(Dense.track, T, count, rule, regs, setup=dense)
        times = [1e3 * job.seconds / count for job in (ours, live, slow)]
        errors = [mse(job.result, oscillation(count, TRACK).Z) for job in (ours, slow)]
        memory = [ours.peak_mb, slow.peak_mb]
        shown = [f"{error:.5f}" for error in errors] + [f"{errors[0] / errors[1]:.3f}"]
        table.row(rule, count, *times, ratio(times[2], times[0]), *memory, *shown)


def thinned(T: int, limits: list[int | None], steps: int) -> None:
    table = Table(
        f"Thinning: T = {T:,}, importance rule, {steps} steps",
        *["max_active", "ms a step", "error   ", "moved by"],
    )
    truth = oscillation(steps, TRACK).Z
    whole: Measured | None = None
    for limit in limits:
        track = measure(tracked, T, steps, {"max_active": limit}, setup=fitted, repeats=1)
        whole = whole or track
        error, moved = mse(track.result, truth), mse(track.result, whole.result)
        table.row(limit, 1e3 * track.seconds / steps, f"{error:.4f}", f"{moved:.1e}")


def batches(T: int, count: int, steps: int) -> None:
    table = Table(
        f"T = {T:,}: {count} test sequences of {steps} steps",
        *["one by one, ms a step", "together", "gain", "max diff"],
    )
    single = measure(one_by_one, T, count, steps, setup=together)
    batch = measure(tracked, T, count, steps, setup=together)
    times = [1e3 * job.seconds / (count * steps) for job in (single, batch)]
    gap = float(np.max(np.abs(single.result - batch.result)))
    table.row(*times, ratio(*times), gap)


def tuning(sizes: list[int], steps: int) -> None:
    table = Table(
        "tune(), one process",
        *["T", "seconds", "error before", "after", "smoothed before", "after "],
    )
    truth = oscillation(steps, TRACK).Z
    for T in sizes:
        search = measure(tune, T, {}, setup=rows, repeats=1)
        errors = [
            mse(measure(job, T, steps, settings, setup=fitted, repeats=1).result, truth)
            for job in (tracked, smoothed)
            for settings in ({}, search.result)
        ]
        table.row(T, search.seconds, *(f"{error:.4f}" for error in errors))


if __name__ == "__main__":
    if arguments(__doc__).quick:
        against_dense(1_000, {"importance": 50, "squared": 8})
        growing({"importance": [1_000]}, 200)
    else:
        against_dense(1_000, {"importance": 300, "squared": 50})
        batches(1_000, 50, 100)
        growing(
            {
                "importance": [1_000, 5_000, 20_000, 50_000],
                "squared": [1_000, 10_000, 100_000],
            },
            400,
        )
        thinned(50_000, [None, 10_000, 5_000, 2_000, 1_000], 400)
        tuning([500, 1_000], 400)

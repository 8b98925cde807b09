"""An Optuna sampler for few, noisy, risky evaluations: a Gaussian process with constrained expected improvement.

Every coordinate runs from 0 to 1. Each finished trial carries its mean gain as value, the variance of that mean as the
user attribute `variance`, and its constraint (zero or less is feasible). The incumbent is a trial like any other.
Formula: expected improvement times probability of feasibility (Gardner et al., 2014).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import threadpool_limits

from tuner.space import Space

Array = NDArray[np.float64]

REFIT = 4
"""Candidates after which length scales are fitted anew."""
POINTS = 1000
"""Candidate points that the acquisition is evaluated at."""
LINE_POINTS = 41
"""Points along each axis through the best known config: a knob alone, from end to end."""


@dataclass(frozen=True, slots=True)
class Region:
    """Box around the best known point in which new candidates are drawn; `half_width` in coordinates."""

    center: tuple[float, ...]
    half_width: float


Kernel = Any
"""A fitted kernel of the regression library, carried from one fit to the next."""


class Surrogate:
    """A Gaussian process over a space's features with a known noise variance for each observation.

    With `kernel` its length scales are taken as they are; without they are fitted, which costs a hundred times as much.
    """

    def __init__(
        self, space: Space, points: Array, values: Array, variances: Array, kernel: Kernel = None
    ) -> None:
        self._features = space.features
        points = space.features(points)
        self._scale = max(float(np.std(values)), 1e-3)
        self._offset = float(np.average(values, weights=1.0 / (variances + self._scale**2)))
        free = ConstantKernel(1.0, (0.1, 30.0)) * Matern(
            length_scale=np.full(points.shape[1], 0.4), length_scale_bounds=(0.08, 4.0), nu=2.5
        )
        self._process = GaussianProcessRegressor(
            free if kernel is None else kernel,
            alpha=variances / self._scale**2 + 1e-6,
            optimizer="fmin_l_bfgs_b" if kernel is None else None,
            n_restarts_optimizer=2 if kernel is None else 0,
            random_state=0,
        )
        with warnings.catch_warnings(), threadpool_limits(1):
            # A length scale at its bound is a knob without effect, which is an answer and not a failure.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._process.fit(points, (values - self._offset) / self._scale)

    @property
    def kernel(self) -> Kernel:
        """The kernel with its fitted length scales."""
        return self._process.kernel_

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the noise-free value at each point."""
        with threadpool_limits(1):
            mean, sd = self._process.predict(self._features(points), return_std=True)
        return mean * self._scale + self._offset, np.maximum(sd * self._scale, 1e-9)


class Fits:
    """The two surrogates of a campaign, gain and limit; their length scales are fitted anew every few candidates."""

    def __init__(self) -> None:
        self._kernels: dict[str, tuple[int, Kernel]] = {}

    def surrogate(self, name: str, space: Space, points: Array, values: Array, variances: Array) -> Surrogate:
        """A surrogate over the evidence as it is now."""
        count, kernel = self._kernels.get(name, (-REFIT, None))
        fresh = (
            len(points) >= count + REFIT
            or kernel is None
            or np.size(kernel.k2.length_scale) != space.features(points).shape[1]
        )
        found = Surrogate(space, points, values, variances, None if fresh else kernel)
        if fresh:
            self._kernels[name] = (len(points), found.kernel)
        return found


class GainSampler(BaseSampler):
    """Draws the next candidate where a feasible improvement over the best known gain is most likely to be large."""

    def __init__(
        self, seed: int, space: Space, region: Region, fits: Fits, usable: Callable[[Array], Array]
    ) -> None:
        """`usable` makes of drawn points those that can be tried: rounded, valid, and each a config not tried yet."""
        self._rng = np.random.default_rng(seed)
        self._space = space
        self._region = region
        self._fits = fits
        self._usable = usable
        self._independent = RandomSampler(seed=seed)
        self.expected_improvement = float("inf")
        """Expected improvement of the last point drawn, on the gain scale."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Search all coordinates that the finished trials have."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return dict(done[0].distributions) if done else {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Maximise the acquisition over points of the region."""
        if not search_space:
            return {}
        space = self._space
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        points = np.array([space.point(t.params) for t in done])
        values = np.array([t.value for t in done], dtype=float)
        variances = np.array([t.user_attrs["variance"] for t in done])
        constraints = np.array([t.user_attrs["constraint"] for t in done])
        draws = self._usable(self._draw(len(space.dimensions)))
        if not len(draws):
            return space.params(self._region.center)
        gain = self._fits.surrogate("gain", space, points, values, variances)
        mean, sd = gain.predict(draws)
        known, _ = gain.predict(points)
        feasible = constraints <= 0
        best = float(known[feasible].max()) if feasible.any() else 0.0
        z = (mean - best) / sd
        improvement = sd * (z * norm.cdf(z) + norm.pdf(z))
        if (constraints > 0).any():
            limit = self._fits.surrogate("limit", space, points, constraints, variances)
            c_mean, c_sd = limit.predict(draws)
            improvement = improvement * norm.cdf(-c_mean / c_sd)
        chosen = int(np.argmax(improvement))
        self.expected_improvement = float(improvement[chosen])
        return space.params(draws[chosen])

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw at random where there is nothing to learn from yet."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _draw(self, dimensions: int) -> Array:
        center = np.array(self._region.center)
        width = self._region.half_width
        # A knob with texts has no neighbourhood: the region holds all of it.
        free = np.array([axis.choice for axis in self._space.dimensions])
        wide = self._rng.uniform(
            np.where(free, 0, np.maximum(center - width, 0)),
            np.where(free, 1, np.minimum(center + width, 1)),
            (POINTS, dimensions),
        )
        near = np.clip(center + self._rng.normal(0, width / 5, (POINTS // 3, dimensions)), 0, 1)
        # Many knobs do nothing at all: moving only some of them keeps a candidate readable and safe.
        keep = self._rng.random(wide.shape) < 0.4
        wide = np.where(keep, center, wide)
        lines = np.repeat(center[None, :], dimensions * LINE_POINTS, axis=0)
        for axis in range(dimensions):
            lines[axis * LINE_POINTS : (axis + 1) * LINE_POINTS, axis] = np.linspace(0.0, 1.0, LINE_POINTS)
        return np.vstack([wide, near, lines])

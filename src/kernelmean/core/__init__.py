"""The ground floor: arrays, solves, sums over rows, checks, files; no estimator is known here."""

"""A time-series analyst: sunspots, a cycle of about eleven years that is not a sine."""

import numpy as np
import statsmodels.api as sm

import kernelmean as km

table = sm.datasets.sunspots.load_pandas().data
y = table[["SUNACTIVITY"]].to_numpy()
train = 250  # years
model = km.KernelStateSpace(random_state=0).fit(y[:train])
error = np.sqrt(np.mean((model.predict(y) - y)[train:, 0] ** 2))
before = np.sqrt(np.mean(np.diff(y[train - 1 :, 0]) ** 2))
print(f"one year ahead, {len(y) - train} years held out: root mean square {error:.1f}")
print(f"the year before: {before:.1f}")
lower, upper = model.predict_interval(y, 0.9)
print("inside their 90% interval:", ((lower <= y) & (y <= upper))[train:].mean().round(2))
ahead = model.forecast(y, steps=11)
low, high = ahead.interval(0.9)
for year, (a, m, b) in enumerate(zip(low[:, 0], ahead.mean()[:, 0], high[:, 0], strict=True), 2009):
    print(f"{year}: {m:4.0f}, from {a:4.0f} to {b:4.0f}")
print(model.summary())

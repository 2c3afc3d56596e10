"""An investor: calm and turbulent weeks of the S&P 500, and which of them this one is."""

import numpy as np
from arch.data import sp500

import kernelmean as km

prices = sp500.load()["Adj Close"].resample("W").last()
returns = (100 * np.log(prices).diff().dropna()).to_frame("return")
model = km.KernelHMM(2, random_state=0).fit(returns)
states = model.predict(returns)
for k in range(2):
    weeks = returns[states == k]["return"]
    print(f"state {k}: {len(weeks)} weeks, standard deviation {weeks.std():.1f}%")
print("stays from one week to the next:", model.transmat_.diagonal().round(2))
now = model.predict_proba(returns)[-1]
print(f"{returns.index[-1]:%d %B %Y}: probabilities {now.round(2)}")
lower, upper = model.forecast(returns, steps=4).interval(0.9)
for week, (low, high) in enumerate(zip(lower[:, 0], upper[:, 0], strict=True), 1):
    print(f"{week} weeks on: {low:.1f} to {high:.1f}% with 90%")

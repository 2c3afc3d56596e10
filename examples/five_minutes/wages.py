"""A statistician: not the mean wage, but its whole distribution, given schooling and experience."""

import pandas as pd

import kernelmean as km

table = km.datasets.load_wages()
model = km.ConditionalDensity().fit(table.X, table.target)
people = pd.DataFrame([table.X.median(), table.X.quantile(0.9)], index=["typical", "senior"])
low, middle, high = model.predict_quantile(people, [0.1, 0.5, 0.9]).T
for name, a, m, b in zip(people.index, low, middle, high, strict=True):
    print(f"{name}: median {m:.2f}, four of five from {a:.2f} to {b:.2f}")
law = model.at(people)
print("P(more than 1.5 times the median wage):")
print(law.probability(lambda y: y[:, 0] > 1.5 * table.target.median()).round(2))
print(model.summary())

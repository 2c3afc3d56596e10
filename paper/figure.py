"""The figure of the paper: `python paper/figure.py` writes paper/figure.png."""

from pathlib import Path

from matplotlib.figure import Figure

import kernelmean as km

table = km.datasets.load_fulton_fish()
iv = km.KernelIV().fit(table.X, table.target, Z=table.Z)
drawing = Figure(figsize=(6.4, 3.8), layout="constrained")
axes = drawing.subplots()
km.display.StructuralCurveDisplay.from_estimator(iv, table.X, table.target).plot(axes)
axes.set(xlabel="log price (dollars a pound)", ylabel="log quantity (pounds a day)")
drawing.savefig(Path(__file__).with_name("figure.png"), dpi=150)

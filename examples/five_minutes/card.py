"""An econometrician: what does a year at school do to wages? (Card 1995)

Distance to a college is the instrument. The answer is a slope with its limits, the straight line of
2SLS beside it, and what the data say about the instrument.
"""

import kernelmean as km

table = km.datasets.load_schooling()
iv = km.KernelIV().fit(table.X, table.target, Z=table.Z, C=table.C)
slope = iv.average_derivative()
print(f"return to a year: {slope.value:.3f}, from {slope.low:.3f} to {slope.high:.3f}")
print("first stage F:", iv.first_stage().f.round(1), "(10 is a rule of thumb for weak)")
print("would regression have done? p =", round(iv.endogeneity_test().p_value, 3))
print(iv.summary())

"""
Push a distribution through a conditional
=========================================

A conditional embedding is learnt from pairs whose inputs follow one distribution. The *sum rule*
says what the responses would look like if the inputs followed another: average the conditional
over the new inputs. No model of either distribution is needed.
"""

# %%
# A step, learnt where inputs spread over the whole range.

import matplotlib.pyplot as plt
import numpy as np

import kernelmean as km

rng = np.random.default_rng(0)


def respond(x):
    return np.tanh(4 * x) + 0.2 * rng.normal(size=x.shape)


X = rng.uniform(-2, 2, size=(1500, 1))
c = km.ConditionalEmbedding(tune_lengthscale=True).fit(X, respond(X))

# %%
# New inputs: fewer, narrower, and to the right. They come without responses.

new_inputs = rng.normal(0.25, 0.25, size=(500, 1))
prior = km.MeanEmbedding(new_inputs, kernel=c.kernel_x_)
shifted = km.sum_rule(c, prior)

# %%
# The result is an embedding like any other, on the training responses. Its weights say how much
# each of them counts under the new inputs, and the probability of any event follows. The truth is
# the same event counted on fresh responses to many new inputs.

cuts = np.linspace(-1.6, 1.6, 60)


def below(y):
    return y[:, :1] <= cuts


estimated = shifted.expectation(below)
before = below(respond(X)).mean(axis=0)
truth = below(respond(rng.normal(0.25, 0.25, size=(100_000, 1)))).mean(axis=0)
print(f"largest error of the probability: {np.abs(estimated - truth).max():.3f}")

# %%
# The distribution function of the response before and after the move.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(cuts, before, color="0.6", label="inputs as in training")
ax.plot(cuts, estimated, color="C0", label="new inputs, by the sum rule")
ax.plot(cuts, truth, "k--", lw=1, label="new inputs, truth")
ax.set(xlabel="response", ylabel="probability of a smaller one")
ax.legend()
plt.show()

"""Markov chains with embedded laws: what hidden Markov and state-space models share."""

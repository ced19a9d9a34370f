"""Bayes by Backprop: variational inference with a Gaussian posterior of the weights."""

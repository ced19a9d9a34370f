"""Uncertainty away from the training data: which rows are kept, and distances to them."""

"""TAGI: Gaussian posteriors in closed form, without gradients."""

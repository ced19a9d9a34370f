"""The Laplace approximation: a Gaussian posterior from the curvature at the MAP estimate."""

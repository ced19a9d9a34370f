"""Variational autoencoders on binarized MNIST."""

from tractable_studies.framework.study import Study

STUDY = Study(
    "vae",
    "Variational and importance-weighted autoencoders on binarized MNIST",
    "Burda, Grosse & Salakhutdinov (2016), table 1, one stochastic layer",
    "tractable_studies.vae.run",
)

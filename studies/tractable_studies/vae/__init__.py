"""Binarised MNIST by autoencoders."""

from tractable_studies.framework.study import Study

STUDY = Study(
    "vae",
    "binarised MNIST by a 784-200-200-50 autoencoder, its bound and its importance-weighted one",
    "Burda, Grosse & Salakhutdinov (2016), table 1, one stochastic layer",
    "tractable_studies.vae.run",
)

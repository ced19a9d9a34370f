"""Formulas of the moment rules: moments forward and messages backward, as pure functions.

A *message* to a state ``N(mu, var)`` is the pair

    d_mu = (mu_post - mu) / var          d_var = (var_post - var) / var**2

which is finite for a state with zero variance.  Messages from several places add.  No function here
uses autograd or modules.
"""

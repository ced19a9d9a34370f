"""Pure maths: moments forward, messages backward.  No autograd, no modules.

A *message* to a state ``N(mu, var)`` is the pair

    d_mu = (mu_post - mu) / var          d_var = (var_post - var) / var**2

which stays finite for a state without variance.  Messages from several places add.
"""

"""The recorders of golden files need the peer libraries' own environments: pytest skips them."""

collect_ignore_glob = ["make_*.py"]

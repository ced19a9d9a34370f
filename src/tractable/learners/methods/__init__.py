"""Learning methods: the interface ``Method`` and its implementations, one class per method."""

"""Running the module of the user: as a function of its parameters, seeded, copied, inspected."""

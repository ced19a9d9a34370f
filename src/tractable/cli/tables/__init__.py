"""Tables in CSV files: read, encoded, split, learnt from, tested on, and kept with the model."""

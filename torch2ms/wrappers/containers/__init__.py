"""Networks and optimizers that lists and dicts hold: each has a name of its own."""

"""The model of torch's tape: events on gradients, the ledger of `.grad`, and the functions hidden in statements."""

"""The model of torch's tape: events on gradients, the ledger of what `.grad` holds, and the functions hidden in statements."""

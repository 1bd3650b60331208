"""Parameters, layers and networks as they are usually made."""

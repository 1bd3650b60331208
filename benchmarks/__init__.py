"""Measurements of torch2ms and of what it writes: `python -m benchmarks NAME`."""

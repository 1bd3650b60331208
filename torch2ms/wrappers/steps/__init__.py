"""What a step is asked and given."""

"""What a person sees of a verification."""

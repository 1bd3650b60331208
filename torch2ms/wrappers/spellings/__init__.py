"""Names and calls of torch as torch spells them, and calls that show what they give."""

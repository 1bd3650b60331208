"""What the text itself says: nodes, names, annotations and directives."""

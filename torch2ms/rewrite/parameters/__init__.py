"""Parameters: lists of them, their names, leaves that become some, and what is loaded into them."""

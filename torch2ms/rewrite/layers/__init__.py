"""What becomes of layers: their classes, arguments, modes and losses."""

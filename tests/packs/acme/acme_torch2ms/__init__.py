"""The rules of an imagined library. A pack is found and read; this line shows that it is not imported."""

raise RuntimeError("a rule pack was imported")

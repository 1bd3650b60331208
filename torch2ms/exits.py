"""What the exit status of a command says."""

DONE = 0
FOUND = 1  # something that a person has to look at
FAILED = 2  # the command could not do its work

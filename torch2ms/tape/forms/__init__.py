"""Gradient calls as MindSpore writes them: the function, its arguments and results, the call and its place."""

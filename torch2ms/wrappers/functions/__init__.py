"""Functions that MindSpore can compile or differentiate."""

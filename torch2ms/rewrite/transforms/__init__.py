"""Function transforms (torch.func): functions that MindSpore can compile."""

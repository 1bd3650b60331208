"""What becomes of tensors: attributes, indices, slices, arrays, texts and draws."""

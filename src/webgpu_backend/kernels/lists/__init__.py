"""Several tensors to a dispatch."""

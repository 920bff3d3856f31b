"""Lists of tensors: `_foreach_*`, norms of many tensors, optimizers."""

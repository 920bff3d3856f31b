"""Other people's code that must know the device: optimizers, distributed training, libraries."""

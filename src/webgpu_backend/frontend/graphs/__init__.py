"""`torch.compile`."""

"""Matrix products: which kernel, tile and split, and their text."""

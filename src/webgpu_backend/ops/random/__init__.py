"""Random numbers and the streams they come from."""

"""Timings. Nothing here is a test."""

"""Sorting, searching and prefix scans."""

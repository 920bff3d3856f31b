"""Order along a dimension: sorting, searching, scans, histograms, segments."""

"""From expressions to WGSL: templates, the function library, how elements are read and written."""

"""Web pages that run and train models in the browser, exported from PyTorch: see docs/browser.md."""

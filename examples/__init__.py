"""Programs to read and to run: each is one command, `python -m examples.<name>`."""

import os

# Before torch is imported, because importing torch loads the backend, which reads the switch: an operator that would
# leave the device is an error here, not a slow success.
os.environ.setdefault("WEBGPU_FALLBACK", "error")

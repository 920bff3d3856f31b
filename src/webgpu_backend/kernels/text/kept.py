"""Templates as an earlier process compiled them: Jinja takes 30 to 100 ms for each of those that a model needs."""

from hashlib import sha256

from jinja2 import FileSystemBytecodeCache


class _Kept(FileSystemBytecodeCache):
    """Jinja's own files, in a folder under the temporary one that is this user's alone. Its keys are a template's name
    and text. A folder that is full or read-only keeps nothing, which is no error."""

    def load_bytecode(self, bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except OSError:
            bucket.reset()

    def dump_bytecode(self, bucket) -> None:
        try:
            super().dump_bytecode(bucket)
        except OSError:
            pass


def kept(settings: str) -> FileSystemBytecodeCache | None:
    """The cache for an environment with these settings, which Jinja's keys leave out; None where no folder is safe."""
    try:
        return _Kept(pattern=f"webgpu-{sha256(settings.encode()).hexdigest()[:16]}-%s.cache")
    except (OSError, RuntimeError):
        return None

"""What the runtime raises. Apart from wgpu, whose loading takes half a second and waits for the first tensor."""


class DeviceError(RuntimeError):
    """The adapter refused something; the message is the adapter's own."""


class OutOfMemory(DeviceError):
    """The adapter has no memory for a request."""


class BindingTooLarge(DeviceError):
    """A buffer does not fit one binding: the work must be split, or is refused with this."""


class DeviceLost(DeviceError):
    """The device is gone; nothing on it can be read again."""


class NoBuffer(DeviceError):
    """Something that is no buffer of the device was to be bound."""


class Fault(DeviceError):
    """A kernel reported a bad index; `words` are what it said."""

    def __init__(self, words: tuple[int, ...]):
        super().__init__(f"a kernel reported a bad index: {words}")
        self.words = words

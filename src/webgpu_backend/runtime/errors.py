"""What the runtime raises. Apart from wgpu, whose loading takes half a second and waits for the first tensor."""


class DeviceError(RuntimeError):
    """The adapter refused something; the message is the adapter's own."""


class OutOfMemory(DeviceError):
    """The adapter has no memory for a request."""


class BindingTooLarge(DeviceError):
    """A buffer does not fit one binding: the work must be split, or is refused with this."""


class DeviceLost(DeviceError):
    """The device is gone; nothing on it can be read again."""

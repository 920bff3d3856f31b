"""The small workloads that we and our peers are timed on: their data in numpy, and torch's version of each."""

import numpy as np

ADD = 1_000_000
MLP = (784, 512, 512, 10)
BATCH = 64
WIDTH, HEADS, LENGTH, BLOCKS = 128, 4, 64, 2
RATE = 0.01  # of the SGD step

CASES = {
    "add 1M": "add",
    "softmax 1024x1024": "softmax",
    "matmul 512": "matmul512",
    "matmul 1024": "matmul1024",
    "MLP forward, batch 64": "mlp",
    "MLP SGD step, batch 64": "step",
    "conv net 8x3x32x32": "conv",
    "transformer d128 h4 s64 l2": "transformer",
}


def arrays() -> dict[str, np.ndarray]:
    """Inputs and weights by name, the same in every process."""
    generator = np.random.default_rng(7)

    def normal(*shape, scale=1.0):
        return (generator.standard_normal(shape) * scale).astype(np.float32)

    found = {"a": normal(ADD), "b": normal(ADD), "rows": normal(1024, 1024)}
    for size in (512, 1024):
        found[f"left{size}"], found[f"right{size}"] = normal(size, size), normal(size, size)
    found["digits"], found["labels"] = normal(BATCH, MLP[0]), np.arange(BATCH, dtype=np.int32) % 10
    for i, (inputs, outputs) in enumerate(zip(MLP, MLP[1:])):
        found[f"mlp{i}.weight"], found[f"mlp{i}.bias"] = normal(outputs, inputs, scale=inputs**-0.5), normal(outputs)
    found["images"] = normal(8, 3, 32, 32)
    found["conv0.weight"], found["conv0.bias"] = normal(32, 3, 3, 3, scale=0.2), normal(32)
    found["conv1.weight"], found["conv1.bias"] = normal(64, 32, 3, 3, scale=0.06), normal(64)
    found["head.weight"], found["head.bias"] = normal(10, 64, scale=0.1), normal(10)
    found["sequence"] = normal(1, LENGTH, WIDTH)
    shapes = {"qkv": (3 * WIDTH, WIDTH), "out": (WIDTH, WIDTH), "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH)}
    for block in range(BLOCKS):
        for name, (outputs, inputs) in shapes.items():
            found[f"{block}.{name}.weight"] = normal(outputs, inputs, scale=inputs**-0.5)
            found[f"{block}.{name}.bias"] = normal(outputs, scale=0.1)
        for name in ("norm1", "norm2"):
            found[f"{block}.{name}.weight"], found[f"{block}.{name}.bias"] = 1 + normal(WIDTH, scale=0.1), normal(WIDTH)
    return found


def torch_cases(device: str, wait) -> dict:
    """Case -> function that runs it on the device and waits; its result is a tensor of the device."""
    import torch
    import torch.nn.functional as F

    t = {name: torch.from_numpy(array).to(device) for name, array in arrays().items()}
    labels = torch.from_numpy(arrays()["labels"].astype(np.int64)).to(device)

    def linear(x, name):
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    def mlp(x):
        return linear(F.relu(linear(F.relu(linear(x, "mlp0")), "mlp1")), "mlp2")

    def conv():
        x = F.relu(F.conv2d(t["images"], t["conv0.weight"], t["conv0.bias"], padding=1))
        x = F.relu(F.conv2d(x, t["conv1.weight"], t["conv1.bias"], stride=2, padding=1))
        return linear(x.mean((2, 3)), "head")

    def transformer():
        x = t["sequence"]
        for block in range(BLOCKS):
            y = F.layer_norm(x, (WIDTH,), t[f"{block}.norm1.weight"], t[f"{block}.norm1.bias"])
            q, k, v = linear(y, f"{block}.qkv").view(1, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            y = (q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).softmax(-1) @ v
            x = x + linear(y.transpose(1, 2).reshape(1, LENGTH, WIDTH), f"{block}.out")
            y = F.layer_norm(x, (WIDTH,), t[f"{block}.norm2.weight"], t[f"{block}.norm2.bias"])
            x = x + linear(F.gelu(linear(y, f"{block}.up"), approximate="tanh"), f"{block}.down")
        return x

    trained = {name: array.detach().clone().requires_grad_() for name, array in t.items() if name.startswith("mlp")}
    optimizer = torch.optim.SGD(trained.values(), lr=RATE)

    def step():
        optimizer.zero_grad()
        x = t["digits"]
        for i in range(3):
            x = F.linear(x, trained[f"mlp{i}.weight"], trained[f"mlp{i}.bias"])
            x = F.relu(x) if i < 2 else x
        loss = F.cross_entropy(x, labels)
        loss.backward()
        optimizer.step()
        wait(loss.detach(), *trained.values())
        return loss.detach()

    def waited(f):
        def g():
            with torch.no_grad():
                found = f()
            wait(found)
            return found

        return g

    return {
        "add": waited(lambda: t["a"] + t["b"]),
        "softmax": waited(lambda: t["rows"].softmax(1)),
        "matmul512": waited(lambda: t["left512"] @ t["right512"]),
        "matmul1024": waited(lambda: t["left1024"] @ t["right1024"]),
        "mlp": waited(lambda: mlp(t["digits"])),
        "step": step,
        "conv": waited(conv),
        "transformer": waited(transformer),
    }

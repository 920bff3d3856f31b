"""Tables and a plot of what `python -m benchmarks` measured."""


def finish(row: dict, devices: list[str], ceilings: dict) -> dict:
    """Adds what follows from the times: ratio, floor, share of it reached, rate, and whether the devices agree."""
    ours, theirs = row[devices[-1]], row[devices[0]]
    row["ratio"] = ours / theirs if ours and theirs and len(devices) > 1 else None
    kernels = row.get("kernel_ms")
    row["kernel_ratio"] = kernels / theirs if kernels and theirs and len(devices) > 1 else None
    on_device = row["group"] not in ("host", "model")
    if ceilings and on_device and (row["bytes"] or row["flops"]):
        row["floor_ms"] = 1e3 * max(row["bytes"] / ceilings["bytes"], row["flops"] / ceilings["flops"])
        row["share"] = row["floor_ms"] / ours if ours else None
    if ours:
        row["rate"] = _rate(row, ours)
    row["slow"] = has_aim(row) and (
        row["share"] * row["floor_target"] < 1 if row.get("floor_target") else row["ratio"] > row["target"]
    )
    return row


def has_aim(row: dict) -> bool:
    """An aim, and what it is for: the share of the floor, or the ratio."""
    return bool(row.get("share") if row.get("floor_target") else row["ratio"] and row["target"])


def _rate(row: dict, ms: float) -> str:
    if row["group"] == "model":
        peaks = [f"{value:.0f}" for key, value in row.items() if key.endswith("peak MiB") and value is not None]
        count = f", {row['dispatches']} dispatches" if row.get("dispatches") else ""
        return f"peak {' / '.join(peaks)} MiB{count}"
    if row["flops"]:
        billions = row["flops"] / ms / 1e6
        return f"{billions / 1e3:.2f} TFLOP/s" if billions > 100 else f"{billions:.2f} GFLOP/s"
    return f"{row['bytes'] / ms / 1e6:.1f} GB/s" if row["bytes"] else ""


def differ(got: list[float], want: list[float]) -> str:
    """'' where two devices' values agree as well as half precision does."""
    scale = max([abs(x) for x in want] + [1e-6])
    error = max((abs(a - b) for a, b in zip(got, want)), default=0.0)
    return "" if len(got) == len(want) and error <= 2e-2 * scale else f"differs by {error:.3g} of {scale:.3g}"


def _time(ms) -> str:
    return "-" if ms is None else f"{ms:.4f}" if ms < 10 else f"{ms:.2f}"


def cells(row: dict, devices: list[str]) -> list[str]:
    found = [row["name"], *(_time(row[d]) for d in devices)]
    found.append(_time(row.get("kernel_ms")))
    found.append(f"{row['ratio']:.2f}" if row["ratio"] else "-")
    found.append(f"{row['kernel_ratio']:.2f}" if row.get("kernel_ratio") else "")
    floor = row.get("floor_target")
    found.append(f"{floor:g} of floor" if floor else f"{row['target']:g}" if row["target"] else "")
    found.append(_time(row["floor_ms"]) if row.get("floor_ms") else "")
    found.append(f"{100 * row['share']:.0f} %" if row.get("share") else "")
    found.append(row.get("rate", ""))
    return found


def head(devices: list[str]) -> list[str]:
    return [
        "workload",
        *(f"{d} ms" for d in devices),
        "kernels ms",
        "ratio",
        "kernels",
        "aim",
        "floor ms",
        "share",
        "rate",
    ]


def text(row: list[str]) -> str:
    name, *rest = row
    return f"{name:42} " + " ".join(f"{cell:>10}" for cell in rest)


def markdown(rows: list[dict], devices: list[str]) -> str:
    """A table a group; a ratio above the aim is bold, or a share of the floor below it."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += ["| " + " | ".join([group, *head(devices)[1:]]) + " |", "|" + "---|" * len(head(devices))]
        for row in rows:
            if row["group"] == group:
                found = cells(row, devices)
                at = len(devices) + (6 if row.get("floor_target") else 2)
                found[at] = f"**{found[at]}**" if row["slow"] else found[at]
                lines.append("| " + " | ".join(found) + " |")
        lines.append("")
    return "\n".join(lines)


def plot(rows: list[dict], devices: list[str], path: str) -> str:
    """A bar a workload: the last device's time over the first's. Returns what to tell the user."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed (pip install matplotlib)"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows if row["ratio"]]
    if not rows:
        return "no plot: it shows ratios, and two devices are needed for those"
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.2 * len(rows)))
    colors = ["#c0392b" if row["slow"] else "#2c7fb8" for row in rows]
    axes.barh(range(len(rows)), [row["ratio"] for row in rows], color=colors)
    for i, row in enumerate(rows):
        if row["target"]:
            axes.plot([row["target"]] * 2, [i - 0.4, i + 0.4], color="black")
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"time of {devices[-1]} over {devices[0]} (below 1 is faster; the mark is the aim)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f"plot: {path}"

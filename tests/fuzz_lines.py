"""The kinds of lines of random programs (`tests/fuzz.py`).

Each is a function of the writer and a tensor's name. It gives (text, exact[, what is written]), or None where it does
not fit. `exact`: what is exact stays so; text that the CPU refuses is left out of the program.
"""

import re

import torch

OLDER = torch.__version__ < "2.13"  # has no gradients of losses of two dtypes, and of complex linear


def broadcasts(a, b) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


def view(w, x: str):
    t, d = w.tensors[x], w.dice
    a, b = w.dim(x), w.dim(x)
    if a is None:
        return d.pick((f"{x}.view(1)", f"{x}.expand(2, 3)", f"{x}.unsqueeze(0)", f"{x}.reshape(1, 1)")), True
    n = t.shape[a]
    start, stop = d.below(n + 1), d.below(n + 1)
    options = [
        f"{x}.transpose({a}, {b})", f"{x}.permute({tuple(reversed(range(t.dim())))})", f"{x}.unsqueeze({a})",
        f"{x}.narrow({a}, {min(start, stop)}, {abs(stop - start)})", f"{x}.flatten()", f"{x}.reshape(-1)",
        f"{x}.reshape({(*t.shape[1:], t.shape[0])})", f"{x}.movedim({a}, {b})", f"{x}[{start}:, ...]",
        f"{x}[..., ::{d.below(3) + 1}]", f"{x}.squeeze({a})", f"{x}.unsqueeze(0).expand(3, *{tuple(t.shape)})",
        f"{x}.diagonal(0, {a}, {b})", f"{x}.unfold({a}, {min(n, 2)}, 1)", f"{x}.detach()", f"{x}.view_as({x})",
        f"{x}.t()", f"{x}.chunk(2, {a})[-1]", f"{x}.mT",
        f"{x}.swapaxes({a}, {b})",
    ]  # fmt: skip
    if n:
        options += [f"{x}.select({a}, {d.below(n)})", f"{x}[{d.below(n)}]", f"{x}[None, {d.below(n)}]",
                    f"{x}.unbind({a})[{d.below(n)}]", f"{x}.split({d.below(n) + 1}, {a})[0]"]  # fmt: skip
    if t.is_complex():
        options += [f"torch.view_as_real({x})", f"{x}.real", f"{x}.imag", f"{x}.conj()"] * 3
    return d.pick(options), True


def copies(w, x: str):
    d, t = w.dice, w.tensors[x]
    a = w.dim(x)
    options = [f"{x}.clone()", f"{x}.contiguous()", f"{x}.to({d.pick(w.dtypes)})", f"{x}.tril()", f"{x}.triu(1)"]
    if a is not None:
        other = w.pick(lambda o: o.dim() == t.dim()) or x
        options += [
            f"{x}.flip({a})", f"{x}.roll({d.below(5) - 2}, {a})", f"{x}.repeat_interleave(2, {a})",
            f"torch.cat([{x}, {other}], {a})", f"torch.stack([{x}, {x}], {a})", f"F.pad({x}, (1, {d.below(3)}))",
            f"torch.cat([{x}, {x}.flip({a}), {other}], {a})", f"{x}.tile(2)", f"F.pad({x}, (-1, 2), value=2)",
            f"{x}.repeat({', '.join(['2'] * t.dim())})", f"torch.hstack([{x}, {other}])", f"{x}.rot90(1, ({a}, 0))",
        ]  # fmt: skip
    text = d.pick(options)
    return (text, ".to(" not in text or not (t.is_floating_point() and w.is_rounded(t)))


def unary(w, x: str):
    t = w.tensors[x]
    exact = ["-{x}", "{x}.abs()", "{x}.relu()", "{x}.square()", "{x}.clamp(-2, 3)", "{x}.clamp(min=1)", "{x} * {x}",
             "F.hardtanh({x})", "{x}.positive()", "F.leaky_relu({x}, 0.5)"]  # fmt: skip
    rounded = ["{x}.sin()", "{x}.tanh()", "{x}.sigmoid()", "{x}.abs().sqrt()", "F.gelu({x})", "F.silu({x})",
               "({x} / 3).exp().clamp(max=50)", "{x}.abs().log1p()", "F.softplus({x})", "{x}.atan()", "{x}.erf()",
               "F.elu({x})", "1 / ({x}.abs() + 1)", "({x}.abs() + 1).rsqrt()", "F.mish({x})", "{x}.cos()"]  # fmt: skip
    if t.is_complex():
        exact, rounded = ["-{x}", "{x} * {x}", "{x}.conj()", "{x}.square()"], ["{x}.abs()", "{x} / 2"]
    if t.is_floating_point() and w.dice.chance(2) or t.is_complex() and w.dice.chance(3):
        return w.dice.pick(rounded).format(x=x), False
    return w.dice.pick(exact).format(x=x), True


def discrete(w, _):
    x = w.exact(lambda t: not t.is_complex())
    if x is None:
        return None
    y = w.exact(lambda t: broadcasts(t.shape, w.tensors[x].shape) and not t.is_complex()) or "1"
    op = w.dice.pick(("<", ">", "==", "!=", "<=", ">="))
    options = [f"{x} {op} {y}", f"{x} {op} {w.number(x)}", f"{x}.sign()", f"{x}.floor()", f"{x}.round()", f"{x} % 3",
               f"{x} // 2", f"{x}.logical_not()", f"torch.isin({x}, {y})" if y != "1" else f"{x}.isnan()",
               f"torch.logical_and({x}, {y})" if y != "1" else f"{x}.bool()", f"{x}.trunc()", f"torch.fmod({x}, 2)",
               f"torch.isclose({x}, {x})", f"{x}.to(torch.int32)", f"{x}.to(torch.int64)", f"{x}.bool()",
               f"torch.div({x}, 2, rounding_mode='floor')"]  # fmt: skip
    if not w.tensors[x].is_floating_point():
        options += [f"{x} & {w.dice.pick(('3', y))}", f"{x} | 1", f"{x} ^ {y}", f"~{x}", f"{x} << 1", f"{x} >> 1"]
    return w.dice.pick(options), True


def binary(w, x: str):
    y = w.partner(x)
    d = w.dice
    text = d.pick((f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"torch.add({x}, {y}, alpha=2)", f"{y} - {x}",
                   f"torch.rsub({x}, {y})", f"{x} + {x} * {y}", f"torch.sub({x}, {y}, alpha=3)"))  # fmt: skip
    if w.tensors[x].is_complex() or y not in w.tensors or d.chance(2):
        return text, True
    c = w.exact(lambda t: t.dtype is torch.bool and broadcasts(t.shape, w.tensors[x].shape))
    options = [f"torch.maximum({x}, {y})", f"torch.minimum({x}, {y})", f"torch.lerp({x}, {y}, 0.5)",
               f"torch.addcmul({x}, {x}, {y}, value=2)", f"torch.where({x} > 0, {x}, {y})"]  # fmt: skip
    if c:
        options += [f"torch.where({c}, {x}, {y})", f"{x}.masked_fill({c}, 2)"] * 2
    text = d.pick(options)
    if "> 0" in text and w.is_rounded(w.tensors[x]):
        return None
    return text, "lerp" not in text


def reduction(w, x: str):
    d, t = w.dice, w.tensors[x]
    a, keep = w.dim(x), d.chance(2)
    if a is None or d.chance(5):
        return d.pick((f"{x}.sum()", f"{x}.float().mean()", f"{x}.amax()", f"{x}.sum().clone()")), False
    options = [f"{x}.sum({a}, keepdim={keep})", f"{x}.cumsum({a})", f"{x}.amax({a}, keepdim={keep})",
               f"{x}.amin({a})", f"{x}.max({a}).values", f"{x}.sum()"]  # fmt: skip
    if not t.is_complex():
        options.append(f"{x}.cummax({a}).values")
    if t.is_floating_point():
        options += [f"{x}.mean({a}, keepdim={keep})", f"{x}.softmax({a})", f"{x}.log_softmax({a})",
                    f"{x}.logsumexp({a})",
                    f"{x}.var({a}, correction=0)", f"{x}.norm(dim={a})", f"F.layer_norm({x}, {x}.shape[-1:])",
                    f"F.normalize({x}, dim={a})"]  # fmt: skip
        return d.pick(options), False
    return d.pick(options), not t.is_complex()


def order(w, _):
    x = w.exact(lambda t: t.dim() and not t.is_complex() and t.numel())
    if x is None:
        return None
    a = w.dim(x)
    n = w.tensors[x].shape[a]
    return w.dice.pick((
        f"{x}.sort(dim={a}, stable=True).values", f"{x}.sort(dim={a}, stable=True).indices",
        f"{x}.detach().topk({min(n, 3)}, {a}).values",  # equal ones are any of them
        f"{x}.any({a})", f"{x}.all({a})", f"{x}.nonzero()", f"{x}.unique()", f"{x}.count_nonzero({a})",
        f"{x}.argsort(dim={a}, stable=True, descending=True)", f"{x}.sort(dim=0, stable=True, descending=True).values",
        f"torch.searchsorted({x}.flatten().sort()[0], {x})",
        f"{x}.detach().kthvalue({n}, {a}).values", f"{x}.flatten().bincount()", f"{x}.unique(return_inverse=True)[1]",
    )), True  # fmt: skip


def product(w, x: str):
    t = w.tensors[x]
    if t.dtype is torch.bool:
        return None
    y = w.pick(lambda o: o.dim() and t.dim() and o.dtype == t.dtype and o.shape[-min(2, o.dim())] == t.shape[-1])
    if y is None:
        y = f"{x}.mT"
    options = [f"{x} @ {y}", f"torch.matmul({x}, {y})"]
    if t.dim() == 2:
        options += [
            f"{x} @ {x}.mT" if OLDER and t.is_complex() else f"F.linear({x}, {x})",
            f"torch.mm({x}.t(), {x})",
            f"torch.addmm({x} @ {x}.t(), {x}, {x}.t(), alpha=2)",
        ]
    if t.dim() == 3:
        options += [f"torch.bmm({x}, {x}.mT)", f"torch.einsum('bij,bkj->bik', {x}, {x})", f"F.avg_pool1d({x}, 2)"]
    if t.dim() == 4:
        options += [f"F.max_pool2d({x}, 2)", f"F.interpolate({x}, scale_factor=2)", f"F.conv2d({x}, {x}[:1])"]
    return w.dice.pick(options), False


def indices(w, x: str):
    """Reading by indices and masks."""
    t, d = w.tensors[x], w.dice
    if not t.dim() or not t.numel():
        return None
    a = w.dim(x)
    n, seed = t.shape[a], d.below(1000)
    index = f"index({d.pick((1, 2, 3, n, 2 * n))}, {n}, {seed})"
    mask = w.exact(lambda o: o.dtype is torch.bool and o.shape == t.shape)
    options = [f"{x}.index_select({a}, {index})", f"{x}[index((2, 3), {t.shape[0]}, {seed})]",
               f"{x}.gather({a}, index({tuple(t.shape)}, {n}, {seed}))", f"{x}.take(index(5, {t.numel()}, {seed}))",
               f"{x}[..., index(4, {t.shape[-1]}, {seed})]", f"{x}[index(3, {t.shape[0]}, {seed}) - {t.shape[0]}]",
               f"torch.take_along_dim({x}, index({tuple(t.shape)}, {n}, {seed}), {a})"]  # fmt: skip
    if t.dim() > 1:
        options += [f"{x}[index(3, {t.shape[0]}, {seed}), index(3, {t.shape[1]}, {seed + 1})]",
                    f"{x}[:, index((2, 1), {t.shape[1]}, {seed})]",
                    f"{x}[0, index(2, {t.shape[1]}, {seed})]"]  # fmt: skip
    if mask:
        options += [f"{x}[{mask}]", f"{x}.masked_select({mask})"] * 3
    return d.pick(options), True


def inplace(w, x: str):
    y = w.pick(lambda t: broadcasts(t.shape, w.tensors[x].shape)) if not w.dice.chance(3) else None
    y = w.apart(y, x) if y else w.number(x)
    number = w.number(x)
    return w.dice.pick((
        f"{x}.add_({y})", f"{x}.mul_({y})", f"{x}.sub_({y}, alpha=2)", f"{x}.fill_({number})", f"{x}.zero_()",
        f"{x}.clamp_(-3, 4)", f"{x}.neg_()", f"{x} += {y}", f"{x}[...] = {y}", f"{x}.relu_()",
        f"{x}.copy_(torch.as_tensor({y}))",
        f"{x}.addcmul_({x}, {x})", f"{x}.t_()", f"{x}.squeeze_()", f"{x}.transpose_(0, -1)", f"{x}.mul_({number})",
    )), True, x  # fmt: skip


def indexed_write(w, x: str):
    t, d = w.tensors[x], w.dice
    if not t.dim() or not t.numel():
        return None
    a, number, seed = w.dim(x), w.number(x), d.below(1000)
    n, first = t.shape[a], t.shape[0]
    y = w.pick(lambda o: o.dtype == t.dtype and broadcasts(o.shape, t.shape[1:]) and o.dim() < t.dim()) or number
    if y in w.tensors and w.tensors[y].untyped_storage().data_ptr() == t.untyped_storage().data_ptr():
        y = f"{y}.clone()"
    mask = w.exact(lambda o: o.dtype is torch.bool and o.shape == t.shape)
    options = [
        f"{x}[{d.below(first)}] = {y}", f"{x}[1:] = {y}", f"{x}[..., ::2] = {number}", f"{x}[::2].add_({number})",
        f"{x}.index_fill_({a}, index(2, {n}, {seed}), {number})", f"{x}.select({a}, 0).mul_(2)",
        f"{x}[index({first}, {first}, {seed}, distinct=True)] = {x}.clone()", f"{x}[:1].copy_({x}[-1:].clone())",
        f"{x}.index_add_({a}, index({n}, {n}, {seed}), {x}.clone())", f"{x}[index(2, {first}, {seed})] += 1",
        f"{x}.index_copy_({a}, index({n}, {n}, {seed}, distinct=True), {x}.flip({a}))", f"{x}.t()[0] = {number}",
        f"{x}.scatter_({a}, index({tuple(t.shape)}, {n}, {seed}), {number})", f"{x}.view(-1)[1::3] = {number}",
        f"{x}.scatter_add_({a}, index({tuple(t.shape)}, {n}, {seed}), {x}.clone())",
        f"{x}.index_put_((index(3, {first}, {seed}),), torch.as_tensor({number}).to({x}), accumulate=True)",
        f"{x}.diagonal().fill_({number})", f"{x}[{d.below(first)}, ...].add_(1)",
        f"{x}.put_(index(2, {t.numel()}, {seed}, distinct=True), {x}.flatten()[:2].clone())",
    ]  # fmt: skip
    if mask:
        options += [f"{x}[{mask}] = {number}", f"{x}.masked_fill_({mask}, {number})",
                    f"{x}.masked_scatter_({mask}, {x}.flip(0).contiguous())"] * 3  # fmt: skip
    return d.pick(options), True, x


def more_binary(w, x: str):
    """Quotients, powers and what takes two tensors besides."""
    t, d = w.tensors[x], w.dice
    y = w.partner(x)
    if t.is_complex() or (y in w.tensors and w.tensors[y].is_complex()):
        return f"{x} / ({y} * {y} + 3)" if y in w.tensors else f"{x} / 2", False
    if y not in w.tensors:
        return d.pick((f"{x} / 2", f"torch.clamp({x}, max={y})", f"torch.where({x} == {x}, {y}, {x})")), True
    text = d.pick((
        f"{x} / ({y}.abs() + 1)", f"torch.atan2({x}.float(), {y}.float().abs() + 0.5)",
        f"torch.hypot({x}.float(), {y}.float())",
        f"torch.logaddexp({x}.float(), {y}.float())", f"torch.clamp({x}, {y} - 1, {y} + 1)",
        f"torch.dist({x}.float(), {y}.float())",
        f"{x} ** 3", f"({x}.abs() + 1.5) ** ({y} / 4)", f"torch.addcdiv({x}, {x}, {y}.abs() + 1)",
        f"F.mse_loss({x}, {y}.to({x}.dtype))" if OLDER else f"F.mse_loss({x}, {y})",
        f"F.smooth_l1_loss({x}, {y}, reduction='none')", f"torch.lerp({x}, {y}, {x})",
        f"torch.outer({x}.flatten()[:9], {y}.flatten()[:20])", f"torch.xlogy({x}, {y}.abs() + 1)",
        f"torch.cdist({x}.float(), {y}.float())", f"torch.tensordot({x}, {y}, 1)", f"torch.kron({x}, {y})",
        f"F.cosine_similarity({x}.float(), {y}.float(), dim=-1, eps=1e-2)", f"torch.broadcast_tensors({x}, {y})[0] * 1",
    ))  # fmt: skip
    if re.search("kron|tensordot|cdist", text) and t.numel() * w.tensors[y].numel() > w.most_of_pairs:
        return None
    return text, not t.is_floating_point() and text.endswith("** 3") or "broadcast" in text


def whole_pairs(w, _):
    x = w.exact(lambda t: not t.is_complex())
    if x is None:
        return None
    y = w.exact(lambda t: not t.is_complex() and broadcasts(t.shape, w.tensors[x].shape)) or x
    options = [f"torch.fmod({x}, {y}.abs() + 1)", f"{x} % ({y}.abs() + 2)", f"{x} // ({y}.abs() + 1)",
               f"torch.div({x}, {y}.abs() + 1, rounding_mode='trunc')", f"torch.heaviside({x}, {y}.to({x}.dtype))",
               f"torch.bucketize({x}, {y}.flatten().sort()[0])", f"torch.fmax({x}, {y})", f"torch.eq({x}, {y}).sum()",
               f"torch.equal({x}, {y}) * {x}", f"torch.logical_xor({x}, {y})", f"{x}.ne({y}).nonzero()"]  # fmt: skip
    if not w.tensors[x].is_floating_point() and not w.tensors[y].is_floating_point():
        options += [f"torch.gcd({x}, {y})", f"torch.lcm({x}, {y})", f"torch.bitwise_left_shift({x}, {y} & 3)"]
    return w.dice.pick(options), True


def more_reduction(w, x: str):
    t, d = w.tensors[x], w.dice
    a = w.dim(x)
    if a is None:
        return None
    keep, a2 = d.chance(2), w.dim(x)
    options = [f"{x}.prod({a}, keepdim={keep})", f"{x}.sum(({a}, {a2}))", f"{x}.cumprod({a})", f"{x}.diff(dim={a})",
               f"{x}.sum({a}, dtype=torch.float32)", f"{x}.trace()", f"{x}.sum_to_size({(1,) * t.dim()})"]  # fmt: skip
    if not t.is_complex():
        options += [f"{x}.aminmax(dim={a}).max", f"{x}.amax(({a}, {a2}), keepdim={keep})", f"{x}.min()", f"{x}.amin()",
                    f"{x}.detach().contiguous().median({a}).values",
                    f"{x}.cummin({a}).values", f"{x}.any()", f"{x}.all()",
                    f"{x}.detach().contiguous().median()"]  # fmt: skip
    if not t.is_floating_point():
        return d.pick(options), not t.is_complex()
    options += [f"{x}.std({a}, correction=0)", f"torch.var_mean({x}, {a}, correction=0)[1]", f"{x}.norm()",
                f"{x}.nansum({a})", f"{x}.logcumsumexp({a})", f"{x}.norm(1, {a})", f"{x}.norm(float('inf'), {a})",
                f"torch.linalg.vector_norm({x}, 3, {a})", f"F.softmin({x}, {a})",
                f"{x}.detach().contiguous().nanmedian({a}).values",
                f"F.glu({x}, {a})", f"torch.trapezoid({x}, dim={a})",
                f"{x}.mean(({a}, {a2}), keepdim={keep})"]  # fmt: skip
    return d.pick(options), False


def ranks(w, _):
    """Orders of numbers of which no two are equal: indices too are the same everywhere."""
    x = w.exact(lambda t: t.dim() and not t.is_complex() and 0 < t.numel() <= 2000 and t.double().abs().max() <= 1000)
    if x is None:
        return None
    t, d = w.tensors[x], w.dice
    a, n, down = w.dim(x), t.numel(), d.chance(2)
    size = t.shape[a]
    k = 1 + d.below(size)
    key = f"({x}.detach().flatten().long() * {n} + torch.arange({n}, device={x}.device)).view({x}.shape)"
    key += d.pick(("", "", "", ".float()", ".int()", ".flip(0)", ".neg()"))
    return d.pick((
        f"{key}.topk({k}, {a}, largest={down}).indices", f"{key}.argmax({a})", f"{key}.argmin({a}, keepdim={down})",
        f"{key}.sort({a}, descending={down}).indices", f"{key}.min({a}).indices", f"{key}.kthvalue({k}, {a}).indices",
        f"{key}.median({a}).indices", f"{key}.argsort({a}).argsort({a})", f"{key}.msort()", f"{key}.argmax()",
        f"{x}.scatter({a}, {key}.argsort({a}), {x})", f"{x}.gather({a}, {key}.argsort({a}))",
        f"{key}.cummax({a}).indices",
        f"{key}.topk({k}, {a}, largest={down}).values", f"{x}.take_along_dim({key}.argmax({a}, keepdim=True), {a})",
    )), True  # fmt: skip


def sets(w, _):
    x = w.exact(lambda t: t.dim() and not t.is_complex() and t.numel())
    if x is None:
        return None
    a = w.dim(x)
    return w.dice.pick((
        f"{x}.unique(return_counts=True)[1]", f"{x}.unique_consecutive()", f"{x}.unique(dim={a})", f"{x}.sort({a})[0]",
        f"{x}.float().histc(5, -4, 4)", f"F.one_hot({x}.long() % 5, 5)",
        f"{x}.unique_consecutive(return_inverse=True)[1]",
        f"{x}.flatten().abs().long().bincount(minlength=7)", f"torch.where({x}.bool())[0]", f"{x}.argwhere()",
        f"torch.isin({x}, {x}.flatten()[:3])", f"{x}.nonzero(as_tuple=True)[-1]", f"{x}.detach().mode({a}).values",
        f"torch.searchsorted({x}.flatten().sort()[0], {x}.flatten(), right=True)",
    )), True  # fmt: skip


def more_copies(w, x: str):
    t, d = w.tensors[x], w.dice
    a = w.dim(x)
    if a is None:
        return None
    y = w.pick(lambda o: o.dim() == t.dim() and o.shape[1:] == t.shape[1:]) or x
    many = ", ".join([x, y, f"{x}[1:]", f"{y}[:0]"][d.below(2) :] * d.pick((1, 2, 5)))
    options = [
        f"torch.cat([{many}])", f"torch.vstack([{x}, {y}])", f"torch.stack([{x}] * 9, {a})",
        f"torch.block_diag({x}, {y})",
        f"torch.column_stack([{x}, {x}])", f"torch.cat([{x}.t(), {y}.t()], -1)", f"torch.dstack([{x}, {x}])",
        f"F.pad({x}, (1, 2), mode='{d.pick(('reflect', 'replicate', 'circular'))}')", f"{x}.diag_embed()",
                                            f"{x}.diag()",
        f"F.pad({x}, (0, 1, 2, -1))", f"torch.tensor_split({x}, 3, {a})[1] * 1", f"{x}.flip(tuple(range({t.dim()})))",
        f"{x}.type_as({y})", f"{x}.masked_fill({x}.isfinite(), 0)", f"torch.meshgrid({x}, {x}, indexing='ij')[1]",
        f"{x}.to(memory_format=torch.channels_last)", f"{x}.roll((1, -1), ({a}, 0))", f"torch.full_like({x}, 3) + {x}",
        f"torch.zeros_like({x}).copy_({x})", f"{x}.new_ones({x}.shape).mT * {x}.mT",
        f"{x}.as_strided((2, 2), (1, 2)) * 1",
        f"F.pixel_unshuffle(F.pad({x}, (1, 1)), 1)", f"F.unfold({x}.float(), 2)", f"{x}.unflatten({a}, (-1, 1))",
        f"{x}.repeat_interleave(index(3, 4, 5))",
    ]  # fmt: skip
    text = d.pick(options)
    return text, "type_as" not in text or not w.is_rounded(t)


def bits(w, _):
    """The same memory in other dtypes."""
    # The CPU's strides of nothing are not those that torch's tensors without memory have.
    x = w.exact(lambda t: not t.is_complex() and t.dtype is not torch.bool and t.dim() and t.numel())
    if x is None:
        return None
    dtype = w.dice.pick((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
    if w.tensors[x].is_floating_point():  # sums of zeros have no sign
        return f"({x}.detach() + 0).view({dtype})", True
    return f"{x}.view({dtype})", True


def more_product(w, x: str):
    t, d = w.tensors[x], w.dice
    if t.dtype is torch.bool or t.dim() not in (1, 2, 3, 4) or not t.numel():
        return None
    n = t.shape[-1]
    out = d.pick((1, 2, 3, 5, 8, 17, 33, 65))
    if t.dim() == 1:
        if n * n > w.most_of_pairs:
            return None
        v = w.fresh((n,), t.dtype)
        return d.pick((f"{x} @ {v}", f"torch.outer({x}, {v})", f"torch.einsum('i,j->ij', {x}, {v})",
                       f"torch.dot({x}, {v})",
                       f"{x} @ {w.fresh((n, out), t.dtype)}")), False  # fmt: skip
    m = w.fresh((n, out), t.dtype)
    options = [f"{x} @ {m}", f"F.linear({x}, {m}.t())", f"F.linear({x}, {m}.t(), {m}[0])",
               f"F.linear({x}, {m}.t()).relu()",
               f"({x} @ {m}).sum(0)", f"{x} @ {m}[:, 0]", f"torch.einsum('...i,ij->...j', {x}, {m})"]  # fmt: skip
    if t.dim() == 2:
        options += [f"torch.addmm({m}[0], {x}, {m}, beta=2)", f"torch.mv({x}, {m}[:, 0])",
                    f"torch.einsum('ij,ij->i', {x}, {x})",
                    f"torch.addmv({x}[:, 0], {x}, {m}[:, 0])", f"torch.einsum('ij->ji', {x}) * 2", f"{m}.t() @ {x}.t()",
                    f"torch.linalg.multi_dot([{x}, {m}, {m}.t()])", f"torch.addr({x}, {x}[:, 0], {x}[0])"]  # fmt: skip
    if t.dim() == 3:
        options += [f"torch.bmm({x}.mT, {x})", f"torch.einsum('bij,bik->bjk', {x}, {x})",
                    f"torch.einsum('bij,jk->kib', {x}, {m})", f"torch.einsum('bij,bij->b', {x}, {x})",
                    f"torch.baddbmm({x} @ {m}, {x}, {m}.expand({t.shape[0]}, -1, -1), alpha=2)"]  # fmt: skip
    if t.dim() == 4:
        options += [
            f"torch.einsum('bhqd,bhkd->bhqk', {x}, {x})",
            f"{x}.mT @ {x}",
            f"({x} @ {m}).transpose(1, 2).flatten(2)",
        ]
    return d.pick(options), False


def layer(w, _):
    """What models are made of: convolutions, norms, attention, tables, losses."""
    x = w.pick(lambda t: t.is_floating_point() and t.dim() > 1 and t.numel()
               and (t.dtype in (torch.float32, torch.float64) or not w.is_rounded(t)))  # fmt: skip
    if x is None:
        return None
    t, d = w.tensors[x], w.dice
    n, c = t.shape[-1], t.shape[1]
    options = [_norm, _attention, _loss, _table]
    if t.dim() in (3, 4):
        options += [_conv, _conv, _pool, _attention, _norm]
    return d.pick(options)(w, x, t, d, n, c), False


def _norm(w, x, t, d, n, c):
    v, u = w.fresh((n,), t.dtype), w.fresh((c,), t.dtype)
    groups = d.pick([g for g in (1, 2, 4, c) if c % g == 0])
    return d.pick((f"F.layer_norm({x}, ({n},), {v}, {v}, 0.1)", f"F.rms_norm({x}, ({n},), {v}, 0.1)",
                   f"F.group_norm({x}, {groups}, {u}, {u}, 0.1)",
                   f"F.batch_norm({x}, None, None, {u}, training=True, eps=0.1)",
                   f"F.batch_norm({x}, {u}, {u}.abs() + 1, {u}, {u})", f"F.instance_norm({x}, eps=0.1)"))  # fmt: skip


def _attention(w, x, t, d, n, c):
    if t.dim() == 2:
        return f"F.scaled_dot_product_attention({x}[None], {x}[None], {x}[None])"
    k = w.fresh((*t.shape[:-2], d.pick((1, 3, 7, 16, 33)), n), t.dtype)
    mask = w.fresh((t.shape[-2], w.tensors[k].shape[-2]), torch.bool)
    first = f"F.scaled_dot_product_attention({x}, {k}, {k}"
    return d.pick((f"{first})", f"{first}, is_causal=True)",
                   f"{first}, attn_mask=torch.cat([~{mask}[:, :1] | True, {mask}[:, 1:]], 1))",
                   f"{first}, scale=0.25)", f"{first}, attn_mask={mask}.to({t.dtype}))",
                   f"F.scaled_dot_product_attention({x}, {k}[:, :1], {k}[:, :1], enable_gqa=True)",
                   f"(({x} @ {k}.mT) / 4).softmax(-1) @ {k}"))  # fmt: skip


def _loss(w, x, t, d, n, c):
    classes = f"index({(t.shape[0], *t.shape[2:])}, {c}, {d.below(1000)})"
    smooth = d.pick(("", ", reduction='none'", ", ignore_index=0", ", label_smoothing=0.1", ", reduction='sum'"))
    y = w.fresh(tuple(t.shape), t.dtype)
    return d.pick((f"F.cross_entropy({x}, {classes}{smooth})", f"F.nll_loss({x}.log_softmax(1), {classes})",
                   f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())", f"F.huber_loss({x}, {y})",
                   f"F.kl_div({x}.log_softmax(-1), {y}.softmax(-1), reduction='batchmean')", f"F.l1_loss({x}, {y})",
                   f"F.mse_loss({x}, {y})", f"F.soft_margin_loss({x}, {y}.sign())"))  # fmt: skip


def _table(w, x, t, d, n, c):
    shape = d.pick(((3,), (2, 4), (17,), (0,), ()))
    index = f"index({shape}, {t.shape[0]}, {d.below(1000)})"
    return d.pick((f"F.embedding({index}, {x})", f"F.embedding({index}, {x}, padding_idx=0)", f"{x}[{index}, 0]",
                   f"F.embedding_bag(index((3, 4), {t.shape[0]}, 7), {x}, mode='{d.pick(('sum', 'mean', 'max'))}')",
                   f"{x}[{index}] * 2 + {x}[{index}]"))  # fmt: skip


def _conv(w, x, t, d, n, c):
    k = [1 + d.below(min(3, s)) for s in t.shape[2:]]
    groups = d.pick([g for g in (1, 1, 2, c) if c % g == 0])
    out = groups * d.pick((1, 1, 2, 3, 8))
    options = f"stride={1 + d.below(2)}, padding={d.below(2)}, groups={groups}"
    name = f"conv{t.dim() - 2}d" if not d.chance(4) else f"conv_transpose{t.dim() - 2}d"
    weight = w.fresh((c, out // groups, *k) if "transpose" in name else (out, c // groups, *k), t.dtype)
    bias = w.fresh((out,), t.dtype) if d.chance(2) else "None"
    if "transpose" not in name and d.chance(3):
        options += ", dilation=2"
    return f"F.{name}({x}, {weight}, {bias}, {options})"


def _pool(w, x, t, d, n, c):
    r = t.dim() - 2
    mode = ("'linear'", "'bilinear'")[r - 1]
    return d.pick((f"F.max_pool{r}d({x}, 2, 1)", f"F.avg_pool{r}d({x}, 3, 2, 1)", f"F.adaptive_avg_pool{r}d({x}, 3)",
                   f"F.adaptive_max_pool{r}d({x}, 2)", f"F.interpolate({x}, scale_factor=2, mode={mode})",
                   f"F.max_pool{r}d({x}, 3, 2, 1)",
                   f"F.interpolate({x}, size={(3,) * r}, mode={mode}, align_corners=True)",
                   f"F.max_pool{r}d({x}, 2, return_indices=True)[0]"))  # fmt: skip


def slices(w, x: str):
    """Writes through views of a part."""
    t, d = w.tensors[x], w.dice
    a = w.dim(x)
    if a is None or not t.numel():
        return None
    n, number = t.shape[a], w.number(x)
    start = d.below(n)
    part = d.pick((f"{x}.narrow({a}, {start}, {n - start})", f"{x}[..., 1:]", f"{x}[::2]", f"{x}[:, :1]", f"{x}.mT",
                   f"{x}.flatten()", f"{x}[1:, ..., ::3]", f"{x}.select({a}, {start})", f"{x}.diagonal()",
                   f"{x}.unfold({a}, 1, 2)", f"{x}.transpose(0, {a})[1:]"))  # fmt: skip
    y = w.pick(lambda o: o.dtype == t.dtype and o.shape == t.shape)
    options = [f"{part}.mul_({number})", f"{part}.copy_({part}.flip(0))", f"{part}.add_({part}.clone(), alpha=2)",
               f"{part}.zero_()", f"{part}.sub_({number})", f"{part}.clamp_(min=0)", f"{part}.fill_({number})",
               f"{part}.tril_()", f"{part}.square_()", f"{part}.addcmul_({part}, {part})", f"{part}.cumsum_(0)",
               f"{part}.index_fill_(0, index(1, 1, 0), {number})", f"{part}.masked_fill_({part} == 1, {number})",
               f"{part}.fill_({part}.sum())", f"{part}.copy_({part}.sum(-1, keepdim=True))"]  # fmt: skip
    if y:
        options += [
            f"{part}.copy_({part.replace(x, y, 1)}.clone())",
            f"{part}.add_({part.replace(x, y, 1)}.clone())",
        ] * 2
    text = d.pick(options)
    exact = "sum" not in text and not ("== 1" in text and w.is_rounded(t))
    return text, exact, x


def into(w, x: str):
    """Results written into a tensor that is there."""
    t, d = w.tensors[x], w.dice
    z = w.pick(lambda o: o.shape == t.shape and o.dtype == t.dtype and not o.requires_grad)
    if z is None or t.requires_grad:
        return None
    y = w.apart(x, z)
    options = [f"torch.add({y}, {y}, out={z})", f"torch.mul({y}, 2, out={z})", f"torch.neg({y}, out={z})",
               f"torch.maximum({y}, {y}, out={z})", f"torch.clamp({y}, -1, 2, out={z})",
               f"torch.where({y} == 1, {y}, {y}, out={z})",
               f"torch.abs({y}, out={z})", f"torch.cat([{x}[:1].clone(), {x}[1:].clone()], out={z})"]  # fmt: skip
    text = d.pick(options)
    return text, not (t.is_complex() and "abs" in text), z


def scattered(w, x: str):
    """Sums and extremes of what meets in one place."""
    t, d = w.tensors[x], w.dice
    a = w.dim(x)
    if a is None or not t.numel() or t.is_complex():
        return None
    n, seed = t.shape[a], d.below(1000)
    how = d.pick(("sum", "amax", "amin", "prod", "mean"))
    also = d.pick((True, False))
    index = f"index({tuple(t.shape)}, {n}, {seed})"
    text = d.pick((
        f"{x}.scatter_reduce({a}, {index}, {x}, '{how}', include_self={also})",
        f"{x}.index_reduce({a}, index({n}, {n}, {seed}), {x}, '{how.replace('sum', 'amax')}', include_self={also})",
        f"{x}.scatter_add({a}, {index}, {x})", f"{x}.index_add({a}, index({n}, {n}, {seed}), {x}, alpha=2)",
        f"torch.zeros_like({x}).index_put((index(4, {t.shape[0]}, {seed}),), {x}[:1], accumulate=True)",
        f"{x}.scatter({a}, {index}, 2, reduce='multiply')", f"{x}.select_scatter({x}.select({a}, 0) * 2, {a}, {n - 1})",
        f"{x}.slice_scatter({x}.narrow({a}, 0, 1), {a}, {n - 1}, {n})",
        f"{x}.index_fill({a}, index(2, {n}, {seed}), 1)",
        f"{x}.masked_scatter(torch.ones_like({x}).bool().tril(), {x}.flip(0))", f"{x}.diagonal_scatter({x}.diagonal())",
    ))  # fmt: skip
    return text, how != "mean" and not t.is_floating_point()


def lists(w, x: str):
    """Several tensors in one call."""
    t, d = w.tensors[x], w.dice
    if t.is_complex():
        return None
    y = w.pick(lambda o: o.dtype == t.dtype) or x
    both, number, a = f"[{x}, {y}, {x}]", w.number(x), w.dim(x)
    options = [f"torch._foreach_add({both}, {number})[1]", f"torch._foreach_mul({both}, {both})[1]",
               f"torch._foreach_neg({both})[1]", f"torch._foreach_abs({both})[0]",
               f"torch._foreach_sub({both}, {both})[1]",
               f"torch._foreach_addcmul({both}, {both}, {both}, 2)[1]", f"torch._foreach_maximum({both}, {both})[1]",
               f"torch._foreach_clamp_min({both}, 0)[1]"]  # fmt: skip
    if t.is_floating_point() and d.chance(3):
        return d.pick((f"torch._foreach_norm({both})[1]", f"torch._foreach_lerp({both}, {both}, 0.5)[1]",
                       f"torch._foreach_tanh({both})[1]", f"torch._foreach_div({both}, 3)[1]")), False  # fmt: skip
    if a is not None and d.chance(2):
        parts = d.pick((f"{x}.unbind({a})", f"{x}.split(2, {a})", f"[{x}, {x}.clone()]", f"[{x}[:1], {x}[1:]]"))
        return d.pick((f"torch._foreach_add_({parts}, {number})", f"torch._foreach_mul_({parts}, 2)",
                       f"torch._foreach_neg_({parts})", f"torch._foreach_zero_({parts})",
                       f"torch._foreach_copy_({parts}, [p.flip(0) for p in {parts}])")), True, x  # fmt: skip
    return d.pick(options), True


def derived(w, _):
    """Derivatives within a program, and functions of torch.func."""
    x = w.pick(lambda t: t.is_floating_point() and t.dim() and t.numel())
    if x is None:
        return None
    d = w.dice
    if w.tensors[x].requires_grad and d.chance(2):
        f = d.pick(
            ("({x} * {x}.tanh())", "{x}.softmax(-1).square()", "({x} @ {x}.mT)", "{x}.sigmoid()", "{x}[..., 0].pow(3)")
        )
        return f"torch.autograd.grad({f.format(x=x)}.sum(), {x}, create_graph=True)[0]", False
    f = d.pick(("r.softmax(-1)", "r * r.sum()", "r.flip(0).cumsum(0)", "r.sort(stable=True).values",
                "r[..., :1] * r",
                "r.tanh() @ r", "r.unsqueeze(0) @ r.unsqueeze(1)", "F.gelu(r)", "torch.where(r == r, r, 0)",
                "r.amax(-1)"))  # fmt: skip
    return d.pick((f"torch.func.vmap(lambda r: {f})({x})", f"torch.func.vmap(lambda r: {f}, in_dims=-1)({x})",
                   f"torch.func.grad(lambda r: ({f}).sum())({x}.detach())",
                   f"torch.func.jvp(lambda r: {f}, ({x}.detach(),), ({x}.detach(),))[1]")), False  # fmt: skip


def transforms(w, _):
    x = w.exact(lambda t: t.dtype in (torch.float32, torch.float64, torch.complex64) and t.dim() and t.numel())
    if x is None:
        return None
    d, n, a = w.dice, w.tensors[x].shape[-1], w.dim(x)
    rows = w.tensors[x].shape[-2] if w.tensors[x].dim() > 1 else 1
    square = f"({x} @ {x}.mH + {4 * n + 20} * torch.eye({rows}, device={x}.device))"
    return d.pick((f"torch.fft.fft({x}, dim={a})", f"torch.fft.ifft({x}, dim={a})",
                   f"torch.fft.rfft({x}.real, dim={a})",
                   f"torch.fft.fft2({x})", f"torch.fft.irfft({x}, dim={a})", f"torch.linalg.inv({square})",
                   f"torch.linalg.solve({square}, {x})", f"torch.linalg.cholesky({square})",
                   f"torch.linalg.det({square} / 30)",
                   f"torch.fft.fftshift({x})", f"torch.complex({x}, {x})", f"torch.linalg.matrix_norm({x}.abs())",
                   f"torch.polar({x}.abs(), {x})", f"{x}.renorm(2, 0, 3.0)", f"torch.cov({x})")), False  # fmt: skip


KINDS = (view, view, view, view, copies, copies, unary, unary, discrete, binary, binary, binary, reduction, order,
         product,
         indices, indices, inplace, inplace, indexed_write, indexed_write, more_binary, whole_pairs, more_reduction,
         ranks,
         sets, more_copies, more_copies, bits, more_product, layer, layer, slices, slices, into, scattered, lists,
         derived,
         transforms)  # fmt: skip

"""Every collective of torch.distributed on the device, compared with the same call on host tensors: for _ranks."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

D = "webgpu"
CALLS = {}


def call(function):
    CALLS[function.__name__] = function
    return function


def mine(device, n=6, dtype=torch.float32):
    return (torch.arange(n) + 10 * (dist.get_rank() + 1)).to(dtype).to(device)


def size():
    return dist.get_world_size()


def empty(device, *shape):
    return torch.zeros(*shape, device=device)


@call
def all_reduce_dtypes(device):
    found = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
        found.append(mine(device, dtype=dtype))
        dist.all_reduce(found[-1])
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT, dist.ReduceOp.AVG):
        found.append(mine(device))
        try:
            dist.all_reduce(found[-1], op=op)
        except (RuntimeError, ValueError) as error:
            found[-1] = str(error).splitlines()[0]
    return found


@call
def all_reduce_async(device):
    found = [mine(device) + i for i in range(4)]
    works = [dist.all_reduce(t, async_op=True) for t in found]
    for work in works:
        work.wait()
    assert all(work.is_completed() for work in works)
    future = dist.all_reduce(mine(device), async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    return [*found, future.wait()]


@call
def all_reduce_large(device):
    """Several at once, in memory that the ones before have used."""
    found = []
    for turn in range(3):
        last = [mine(device, 300_000) + i + turn for i in range(3)]
        works = [dist.all_reduce(t, async_op=True) for t in last]
        for work in works:
            work.wait()
        found += last
    gathered = empty(device, 300_000 * size())
    dist.all_gather_into_tensor(gathered, mine(device, 300_000))
    with torch.inference_mode():
        dist.all_reduce(last[0])
    return [*found, gathered]


@call
def all_reduce_strided(device):
    base = empty(device, 2, 3)
    base[:, 1] = dist.get_rank() + 1
    dist.all_reduce(base[:, 1] if device == D else (column := base[:, 1].clone()))
    if device != D:  # gloo takes no strides
        base[:, 1] = column
    return [base]


@call
def complex_and_empty(device):
    found = [torch.view_as_complex(mine(device).reshape(3, 2).contiguous()), empty(device, 0)]
    for t in found:
        dist.all_reduce(t)
    return found


@call
def coalesced(device):
    more = [mine(device), mine(device, 3)]
    dist.all_reduce_coalesced(more)
    return more


@call
def broadcast_and_reduce(device):
    found = [mine(device), mine(device)]
    dist.broadcast(found[0], src=1)
    dist.reduce(found[1], dst=0)
    return found if dist.get_rank() == 0 else found[:1]


@call
def gathers(device):
    parts = [empty(device, 6) for _ in range(size())]
    dist.all_gather(parts, mine(device))
    whole = empty(device, 6 * size())
    dist.all_gather_into_tensor(whole, mine(device))
    stacked = empty(device, size() * 6)
    dist.all_gather_into_tensor(stacked, mine(device), async_op=True).wait()
    lists = [[empty(device, 6), empty(device, 3)] for _ in range(size())]
    dist.all_gather_coalesced(lists, [mine(device), mine(device, 3)])
    root = dist.get_rank() == 0
    roots = [empty(device, 6) for _ in range(size())] if root else None
    dist.gather(mine(device), roots, dst=0)
    return [*parts, whole, stacked, *lists[0], *lists[1], *(roots or [])]


@call
def scatters(device):
    out = empty(device, 3)
    dist.scatter(out, [mine(device, 3) + i for i in range(size())] if dist.get_rank() == 0 else None, src=0)
    reduced = empty(device, 3)
    dist.reduce_scatter_tensor(reduced, mine(device, 3 * size()))
    later = empty(device, 3)
    work = dist.reduce_scatter_tensor(later, mine(device, 3 * size()), op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    parts = empty(device, 3)
    dist.reduce_scatter(parts, [mine(device, 3) + i for i in range(size())])
    average = empty(device, 3)
    try:
        dist.reduce_scatter_tensor(average, mine(device, 3 * size()), op=dist.ReduceOp.AVG)
    except (RuntimeError, ValueError) as error:
        average = str(error).splitlines()[0]
    return [out, reduced, later, parts, average]


@call
def all_to_all(device):
    n = size()
    single = empty(device, 2 * n)
    dist.all_to_all_single(single, mine(device, 2 * n))
    rank = dist.get_rank()
    uneven = empty(device, n * (rank + 1))
    dist.all_to_all_single(uneven, mine(device, sum(range(1, n + 1))), [rank + 1] * n, list(range(1, n + 1)))
    found = [empty(device, 3) for _ in range(n)]
    try:
        dist.all_to_all(found, [mine(device, 3) + i for i in range(n)])
    except RuntimeError as error:
        found = [str(error).splitlines()[0]]
    later = empty(device, 2 * n)
    dist.all_to_all_single(later, mine(device, 2 * n), async_op=True).wait()
    return [single, uneven, *found, later]


@call
def point_to_point(device):
    n, rank = size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    got = empty(device, 6)
    receiving = dist.irecv(got, src=left)
    sending = dist.isend(mine(device), dst=right)
    receiving.wait()
    sending.wait()
    if device == D:
        receiving.wait()  # again, with nothing more to come: on host tensors gloo waits for a second message
    anyone, source = empty(device, 3), None
    if rank == 0:
        source = dist.recv(anyone)
        assert source == 1
    elif rank == 1:
        dist.send(mine(device, 3), dst=0, tag=0)
    tagged = [empty(device, 2), empty(device, 2)]
    if rank == 0:
        dist.recv(tagged[1], src=1, tag=8)
        dist.recv(tagged[0], src=1, tag=7)
    elif rank == 1:
        works = [dist.isend(mine(device, 2) + tag, dst=0, tag=tag) for tag in (7, 8)]
        for work in works:
            work.wait()
    both = empty(device, 4)
    ops = [dist.P2POp(dist.isend, mine(device, 4), right), dist.P2POp(dist.irecv, both, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    if rank == 0:
        work = dist.irecv(later := empty(device, 5))
        work.wait()
        return [got, anyone, *tagged, both, later]
    if rank == 1:
        dist.send(mine(device, 5), dst=0)
    return [got, anyone, *tagged, both]


@call
def objects(device):
    n, rank = size(), dist.get_rank()
    here = torch.device(device)
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank, "tensor": mine(device)})
    assert [f["rank"] for f in found] == list(range(n))
    assert all(f["tensor"].device.type == device for f in found)
    told = [{"a": 1}, "two"] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, src=0, device=here)
    assert told == [{"a": 1}, "two"]
    at = [None] * n if rank == 0 else None
    dist.gather_object(rank, at, dst=0)
    assert rank or at == list(range(n))
    one = [None]
    dist.scatter_object_list(one, list(range(n)) if rank == 0 else None, src=0)
    assert one == [rank]
    if rank == 0:
        dist.send_object_list(["x", 3], dst=1, device=here)
    elif rank == 1:
        got = [None, None]
        dist.recv_object_list(got, src=0, device=here)
        assert got == ["x", 3]
    return [f["tensor"] for f in found]


@call
def groups(device):
    n, rank = size(), dist.get_rank()
    pair, alone = dist.new_group(list(range(n))), [dist.new_group([r]) for r in range(n)][rank]
    found = [mine(device), mine(device)]
    dist.all_reduce(found[0], group=pair)
    dist.all_reduce(found[1], group=alone)
    dist.barrier(group=pair)
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier()
    return found


@call
def meshes(device):
    mesh = init_device_mesh(device, (size(),), mesh_dim_names=("all",))
    t = mine(device)
    dist.all_reduce(t, group=mesh.get_group())
    assert mesh.get_local_rank() == dist.get_rank() and mesh.device_type == device
    grid = init_device_mesh(device, (1, size()), mesh_dim_names=("a", "b"))
    u = mine(device)
    dist.all_reduce(u, group=grid["b"].get_group())
    return [t, u]


@call
def functional_forms(device):
    group = dist.group.WORLD
    n = size()
    found = [
        functional.all_reduce(mine(device), "sum", group),
        functional.all_gather_tensor(mine(device), 0, group),
        functional.all_gather_tensor(mine(device).reshape(2, 3), 1, group),
        functional.reduce_scatter_tensor(mine(device, 2 * n), "sum", 0, group),
        functional.broadcast(mine(device), 0, group),
        functional.all_to_all_single(mine(device, 2 * n), None, None, group),
        *functional.all_reduce_coalesced([mine(device), mine(device, 3)], "sum", group),
        *functional.all_gather_into_tensor_coalesced([mine(device), mine(device, 3)], group),
        *functional.reduce_scatter_tensor_coalesced([mine(device, 2 * n)], "sum", [0], group),
    ]
    x = mine(device).requires_grad_()
    y = functional.all_gather_tensor_autograd(x, 0, group)
    (y * torch.arange(float(len(y)), device=device)).sum().backward()
    z = mine(device, 2 * n).requires_grad_()
    functional.reduce_scatter_tensor_autograd(z, "sum", 0, group).square().sum().backward()
    w = mine(device, 2 * n).requires_grad_()
    functional.all_to_all_single_autograd(w, None, None, group).square().sum().backward()
    waited = [functional.wait_tensor(f) for f in found]
    return [*waited, x.grad, z.grad, w.grad]


@call
def differentiable(device):
    from torch.distributed.nn import functional as fn

    x = mine(device).requires_grad_()
    group = dist.group.WORLD  # these functions' default is the group of when they were imported
    loss = fn.all_reduce(x, group=group).square().sum() + sum(t.sum() for t in fn.all_gather(x, group))
    loss += fn.broadcast(x, 0, group).sum()
    loss.backward()
    return [x.grad]


@call
def autograd_hooks_overlap(device):
    """Work that is begun while the device computes on."""
    total = []
    for i in range(3):
        t = mine(device) * (i + 1)
        work = dist.all_reduce(t, async_op=True)
        u = (mine(device) * 2).sum()
        work.wait()
        total.append(t + u)
    return total


def same(ours, theirs, name, i):
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs, (name, i, ours, theirs)
        return
    assert ours.device.type == D, (name, i)
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=0, atol=0, msg=lambda m: f"{name} {i}: {m}")


def compare() -> None:
    for name, function in CALLS.items():
        theirs, ours = function("cpu"), function(D)
        assert len(ours) == len(theirs), name
        for i, (a, b) in enumerate(zip(ours, theirs)):
            same(a, b, name, i)

"""Generation in which the device never waits for the host: `webgpu_backend.generate`.

transformers' own loop reads every token before it asks for the next one, and takes longer between two tokens than a
fast GPU takes for a small model. Here one token is one captured graph: the model over a cache of fixed size, compiled,
with the choice of the next token and the counting of positions. It is replayed again and again, some tokens ahead of
the one that the host reads, so that the end of the text is seen late and what was computed beyond it is dropped.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import FunctionType
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ... import tensor as T
from ...runtime.gpu import gpu

# Tokens that are asked for beyond the one that is waited for: a GPU then has work while the host is told of a token and
# asks for another one. A software adapter takes far longer for a token than that, and would compute them in vain.
AHEAD = {"gpu": 3, "cpu": 1}
SMALLEST_CACHE = 128
MOST_KEPT = 4  # captured graphs of one model, each with a cache of its own


@dataclass(frozen=True)
class Choice:
    """How the next token is chosen, as far as it is part of the graph: temperature and top_p themselves are not."""

    sample: bool = False
    top_k: int = 0
    nucleus: bool = False


class Decoder:
    """A cache, the tensors that one token's graph reads and writes, and that graph."""

    def __init__(self, model: nn.Module, rows: int, size: int, choice: Choice):
        device = device_of(model)
        self.device = device
        self.key = rows, size, choice
        self.weights = weights_of(model)
        self.choice = choice
        self.cache = static_cache(model, size)
        self.token = torch.zeros(rows, 1, dtype=torch.int64, device=device)
        self.position = torch.zeros(rows, 1, dtype=torch.int64, device=device)
        self.mask = torch.ones(rows, size, dtype=torch.bool, device=device)
        if choice.sample:
            self.drawn = torch.zeros(1, dtype=torch.int64, device=device)
            self.noise = torch.zeros(size, rows, 1, device=device)
            self.temperature = torch.ones((), device=device)
            self.top_p = torch.ones((), device=device)
        self.graph: torch.webgpu.WebGPUGraph | None = None
        self.next: Callable[[], None] | None = None

    # -- the prompt

    @torch.no_grad()
    def begin(self, model: nn.Module, ids: torch.Tensor, mask: torch.Tensor | None, temperature: float, top_p: float):
        """Reads the prompt and chooses the first token."""
        length = ids.shape[1]
        self.cache.reset()
        if self.choice.sample:
            self.noise.uniform_()
            self.drawn.zero_()
            self.temperature.fill_(temperature)
            self.top_p.fill_(top_p)
        self.mask.fill_(True)
        if mask is None:
            positions = torch.arange(length, device=self.device).expand_as(ids)
        else:
            self.mask[:, :length] = mask
            positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        last = {"logits_to_keep": 1} if "logits_to_keep" in parameters_of(model) else {}
        logits = self._logits(model, ids, positions, **last)
        self.position.copy_(positions[:, -1:] + 1)
        self.token.copy_(self._chosen(logits))
        if self.device.type != T.NAME:
            self.next = self._step_of(model)

    def _logits(self, model: nn.Module, ids: torch.Tensor, positions: torch.Tensor, **asked) -> torch.Tensor:
        given = dict(position_ids=positions, attention_mask=self.mask, past_key_values=self.cache, use_cache=True)
        return model(input_ids=ids, **given, **asked).logits[:, -1]

    # -- the tokens after it

    def advance(self, model: nn.Module) -> None:
        """Asks for the next token."""
        if self.next is None:
            self._capture(model)
        else:
            self.next()

    @torch.no_grad()
    def _capture(self, model: nn.Module) -> None:
        """Computes this token, which compiles the step, and captures the step for those after it. The captured graph
        holds the weights' memory, and nothing here holds the model."""
        step = self._step_of(model)
        # Code of its own: torch counts the graphs of each, and refuses more than a few.
        step = FunctionType(step.__code__.replace(), globals(), "step", None, step.__closure__)
        step = torch.compile(step, fullgraph=True, dynamic=False)
        step()
        graph = torch.webgpu.WebGPUGraph()
        try:
            with torch.webgpu.device(self.device), torch.webgpu.graph(graph):
                step()
        except RuntimeError as error:
            raise ValueError(f"{type(model).__name__} cannot be captured, use its own generate. {error}") from error
        self.graph, self.next = graph, graph.replay

    def _step_of(self, model: nn.Module) -> Callable[[], None]:
        def step() -> None:
            logits = self._logits(model, self.token, self.position)
            self.token.copy_(self._chosen(logits))
            self.position.add_(1)

        return torch.no_grad()(step) if self.device.type != T.NAME else step

    def _chosen(self, logits: torch.Tensor) -> torch.Tensor:
        """The next token of each row. Numbers that are drawn have been drawn before the first one: a graph that draws
        none is replayed as it is."""
        if not self.choice.sample:
            return logits.argmax(-1, keepdim=True)
        logits = logits.float() / self.temperature
        tokens = None
        if self.choice.top_k:
            logits, tokens = logits.topk(min(self.choice.top_k, logits.shape[-1]), -1)
        elif self.choice.nucleus:
            logits, tokens = logits.sort(-1, descending=True)
        shares = logits.softmax(-1)
        sums = shares.cumsum(-1)
        allowed = sums - shares < self.top_p if self.choice.nucleus else torch.ones_like(sums, dtype=torch.bool)
        whole = (shares * allowed).sum(-1, keepdim=True)
        drawn = self.noise.index_select(0, self.drawn)[0] * whole
        found = ((sums <= drawn) & allowed).sum(-1, keepdim=True)
        found = torch.minimum(found, allowed.sum(-1, keepdim=True) - 1)
        self.drawn.add_(1)
        return found if tokens is None else tokens.gather(-1, found)

    def read(self) -> Callable[[], torch.Tensor]:
        """A function that waits for the tokens that were asked for last."""
        if self.device.type == T.NAME:
            return T.read_later(self.token)
        token = self.token.clone()
        return lambda: token


# -- what a model is asked


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def weights_of(model: nn.Module) -> tuple:
    """What a captured graph has of a model, and is not seen to change by it."""
    return model.training, T.places_of([*model.parameters(), *model.buffers()])


def parameters_of(model: nn.Module) -> set[str]:
    """What its `forward` takes."""
    found = inspect.signature(model.forward).parameters.values()
    names = {p.name for p in found}
    return names | {"position_ids"} if any(p.kind is p.VAR_KEYWORD for p in found) else names


def static_cache(model: nn.Module, size: int):
    """A cache of fixed size. Layers that look back a part of the way get a whole one: theirs counts in Python, which a
    captured graph does not, and the mask says how far they look."""
    from transformers.cache_utils import StaticCache, StaticLayer, StaticSlidingWindowLayer

    name = type(model).__name__
    config = getattr(model, "config", None)
    if config is None or getattr(config, "is_encoder_decoder", False) or "position_ids" not in parameters_of(model):
        raise ValueError(
            f"webgpu: generate() takes transformers' decoders, which are told positions, and {name} is none: use its "
            "own generate"
        )
    try:
        cache = StaticCache(config=config, max_cache_len=size)
    except (KeyError, AttributeError) as error:
        raise ValueError(f"webgpu: transformers has no cache of fixed size for {name}: use its own generate") from error
    for i, layer in enumerate(cache.layers):
        if type(layer) is StaticSlidingWindowLayer:
            cache.layers[i] = StaticLayer(max_cache_len=size)
        elif type(layer) is not StaticLayer:
            raise ValueError(
                f"webgpu: {name} keeps more than keys and values from token to token ({type(layer).__name__}), which "
                "cannot be captured: use its own generate"
            )
    return cache


# -- graphs that are kept for the next prompt

_kept: WeakKeyDictionary[nn.Module, list[Decoder]] = WeakKeyDictionary()


def _taken(model: nn.Module, *key) -> Decoder:
    """A decoder that nobody uses: one of an earlier call, or a new one."""
    kept, weights = _kept.get(model, []), weights_of(model)
    kept[:] = [decoder for decoder in kept if decoder.weights == weights]
    for i, decoder in enumerate(kept):
        if decoder.key == key:
            return kept.pop(i)
    return Decoder(model, *key)


def _put_back(model: nn.Module, decoder: Decoder) -> None:
    if decoder.graph is not None:
        kept = _kept.setdefault(model, [])
        kept.append(decoder)
        del kept[:-MOST_KEPT]


def cache_size_for(length: int) -> int:
    """Powers of two, so that a conversation that grows needs few graphs."""
    return max(SMALLEST_CACHE, 1 << (length - 1).bit_length())


# -- the loop


def generate(
    model: nn.Module,
    input_ids: torch.Tensor,
    max_new_tokens: int,
    *,
    attention_mask: torch.Tensor | None = None,
    do_sample: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    eos_token_id: int | Iterable[int] | None | Literal["model"] = "model",
    pad_token_id: int | None = None,
    cache_size: int | None = None,
) -> Iterator[torch.Tensor]:
    """The tokens that follow a prompt, as they come: for each a tensor on the CPU with one number a row.

    `model` is a causal language model of transformers, `input_ids` its prompt, [rows, length], padded on the left where
    `attention_mask` says so, or where no mask is given and a `pad_token_id` is known that ends no text. Without
    `do_sample` these are the tokens of `model.generate(..., do_sample=False)`. The iteration ends when every row has
    had a token of `eos_token_id` (the model's own, where none is given; None: there is none); rows that end before the
    others have `pad_token_id` from then on.

    The first call compiles. Later ones with as many rows, the same `cache_size` (by default the next power of two that
    holds prompt and answer) and way of choosing do not. A model whose weights are moved or exchanged is compiled anew.
    Nothing else of the model's generation config is looked at.
    """
    if input_ids.dim() != 2 or not input_ids.shape[1]:
        raise ValueError(f"generate() takes prompts of [rows, length], not of {list(input_ids.shape)}")
    if do_sample and not temperature > 0:
        raise ValueError(f"temperature must be more than 0, not {temperature}: without do_sample none is needed")
    needed = input_ids.shape[1] + max_new_tokens
    size = cache_size_for(needed) if cache_size is None else cache_size
    if needed > size + 1:
        raise ValueError(f"{needed} tokens, of which {max_new_tokens} are new, do not fit a cache of {size}")
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None) if eos_token_id == "model" else eos_token_id
    ends = torch.tensor(
        [] if ends is None else [ends] if isinstance(ends, int) else list(ends), dtype=torch.int64, device="cpu"
    )
    pad = getattr(config, "pad_token_id", None) if pad_token_id is None else pad_token_id
    if attention_mask is None and pad is not None and pad not in ends:
        attention_mask = input_ids != pad  # as transformers takes it
    if attention_mask is not None and not attention_mask[:, -1].all():
        raise ValueError(
            "generate() takes prompts that are padded on the left. Without an attention_mask, tokens of pad_token_id "
            "are padding"
        )
    pad = pad if pad is not None else int(ends[0]) if len(ends) else 0
    device = device_of(model)
    mask = attention_mask.to(device).bool() if attention_mask is not None and not attention_mask.all() else None
    choice = Choice(True, top_k or 0, top_p < 1) if do_sample else Choice()
    key = input_ids.shape[0], size, choice
    prompt = input_ids.to(device), mask, temperature, top_p
    return _tokens(model, key, prompt, max_new_tokens, ends, pad)


def _tokens(model, key: tuple, prompt: tuple, count: int, ends: torch.Tensor, pad: int) -> Iterator[torch.Tensor]:
    decoder = _taken(model, *key)
    ahead = AHEAD[gpu(decoder.device.index).caps.kind] if decoder.device.type == T.NAME else 0
    waiting, done = deque(), torch.zeros(key[0], dtype=torch.bool, device="cpu")
    try:
        for left in reversed(range(count)):
            if left == count - 1:
                decoder.begin(model, *prompt)
                waiting.append(decoder.read())
            while len(waiting) <= min(left, ahead):
                decoder.advance(model)
                waiting.append(decoder.read())
            token = waiting.popleft()()[:, 0].masked_fill(done, pad)
            done |= torch.isin(token, ends)
            yield token
            if done.all():
                break
    finally:
        with ExitStack() as rest:  # all of them, also where one raises
            for late in waiting:
                rest.callback(late)
        _put_back(model, decoder)

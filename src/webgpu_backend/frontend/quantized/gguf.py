"""Language models out of GGUF files, whose blocks stay as they are."""

from os import PathLike, fspath, path

import torch
from torch import nn

from .. import first_use
from .modules import QuantizedEmbedding, QuantizedLinear, quantized_module


def load_gguf(file: str | PathLike, device="webgpu", dtype: torch.dtype = torch.float16, **kwargs) -> nn.Module:
    """A causal language model of transformers from a GGUF file. Matrices in Q8_0, Q4_0, Q4_K and Q6_K stay in their
    blocks on the device; everything else becomes `dtype`. `kwargs` go to the model's configuration.

    The tokenizer is transformers': `AutoTokenizer.from_pretrained(folder, gguf_file=name)`. Needs the packages gguf,
    transformers and accelerate.
    """
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    first_use.complete()
    folder, name = path.split(path.abspath(fspath(file)))
    config = AutoConfig.from_pretrained(folder, gguf_file=name, **kwargs)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    reader, processor = _reader(path.join(folder, name), config)
    _fill(model, reader, processor, device, dtype)
    model.tie_weights()
    _tie(model)
    left = [n for n, p in model.named_parameters() if p.is_meta]
    if left:
        raise ValueError(f"{name} has no tensor for {', '.join(left[:5])}")
    return model.to(device).eval()


def _reader(file: str, config):
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, read_field

    reader = GGUFReader(file)
    architecture = read_field(reader, "general.architecture")[0]
    return reader, TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=config.to_dict())


def _fill(model: nn.Module, reader, processor, device, dtype: torch.dtype) -> None:
    from gguf import dequantize
    from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map

    places, rest = get_gguf_hf_weights_map(model, processor), {}
    for tensor in reader.tensors:
        place = places.get(tensor.name)
        if place is not None and _stays(model, place, tensor, processor):
            raw = processor.process(tensor.data, tensor.name, tensor_key_mapping=places, parsed_parameters=rest).weights
            _put_blocks(model, place, raw, tensor.tensor_type.name.lower(), device)
            continue
        weights = dequantize(tensor.data, tensor.tensor_type)
        done = processor.process(weights, tensor.name, tensor_key_mapping=places, parsed_parameters=rest)
        if done.name in places:
            owner, _, last = places[done.name].rpartition(".")
            value = torch.tensor(done.weights, device="cpu").to(dtype).to(device)
            model.get_submodule(owner).register_parameter(last, nn.Parameter(value, requires_grad=False))


def _stays(model: nn.Module, place: str, tensor, processor) -> bool:
    """Its blocks are rows of a matrix that the format's authors did not rearrange, but for whole rows."""
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor, TensorProcessor

    from ...ops.quantized.codecs import BYTES

    owner, _, last = place.rpartition(".")
    module = model.get_submodule(owner)
    by_rows = type(processor) in (TensorProcessor, LlamaTensorProcessor)
    known = tensor.tensor_type.name.lower() in BYTES and type(module) in (nn.Linear, nn.Embedding)
    return by_rows and known and last == "weight"


def _put_blocks(model: nn.Module, place: str, raw, format: str, device) -> None:
    from ...ops.quantized import codecs

    name = place.rpartition(".")[0]
    codes, scales = codecs.from_blocks(torch.tensor(raw, device="cpu").to(device), format)
    model.set_submodule(name, quantized_module(model.get_submodule(name), codes, scales, format))


def _tie(model: nn.Module) -> None:
    """An output layer without a tensor of its own has the embedding's."""
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is not None and model.config.get_text_config().tie_word_embeddings
    if tied and isinstance(table, QuantizedEmbedding) and not isinstance(head, QuantizedLinear):
        shared = QuantizedLinear(table.weight.data, table.scales, head.bias, table.format, table.embedding_dim)
        shared.weight, shared.scales = table.weight, table.scales
        model.set_output_embeddings(shared.eval())

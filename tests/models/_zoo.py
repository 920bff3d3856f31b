"""Tiny random models of every architecture under test, with the inputs to run them on.

Each has the structure of its full-size relative (grouped heads, sliding windows, experts, shared embeddings, ...), and
sizes that a software adapter runs in milliseconds.
"""

import torch
import transformers as tf

VOCABULARY = 99


def _tokens(*shape):
    return torch.randint(3, VOCABULARY, shape)


def _text(model):
    """Two sequences, the first of them padded on the left."""
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    return {"input_ids": _tokens(2, 9), "attention_mask": mask}


def _labelled(model):
    inputs = _text(model)
    return inputs | {"labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


def _classes(model):
    return _text(model) | {"labels": torch.tensor([0, 2])}


def _translation(model):
    return _text(model) | {"labels": _tokens(2, 5)}


def _image(model):
    size = getattr(model.config, "image_size", 32)
    return {"pixel_values": torch.randn(2, 3, size, size)}


def _image_and_class(model):
    return _image(model) | {"labels": torch.tensor([0, 1])}


def _image_and_text(model):
    size = model.config.vision_config.image_size
    return {"input_ids": _tokens(2, 7), "pixel_values": torch.randn(2, 3, size, size)}


def _segmentation(model):
    return {"pixel_values": torch.randn(1, 3, 64, 64), "labels": torch.randint(0, 3, (1, 64, 64))}


def _detection(model):
    return {"pixel_values": torch.randn(2, 3, 64, 64), "pixel_mask": torch.ones(2, 64, 64, dtype=torch.long)}


def _speech(model):
    return {"input_features": torch.randn(2, 8, 60), "labels": _tokens(2, 5)}


def _waveform(model):
    return {"input_values": torch.randn(2, 1200), "labels": _tokens(2, 3) % 30 + 1}


_DECODER = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_ENCODER = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, pad_token_id=0, num_labels=3,
)  # fmt: skip
_VISION = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8,
)  # fmt: skip
_TOWER = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=16, projection_dim=24, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip

# name: (model class, configuration, inputs)
CAUSAL = {
    "gpt2": (
        tf.GPT2LMHeadModel,
        lambda: tf.GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
            pad_token_id=0
        ),
        _labelled,
    ),
    "llama": (tf.LlamaForCausalLM, lambda: tf.LlamaConfig(**_DECODER), _labelled),
    "qwen2": (
        tf.Qwen2ForCausalLM,
        lambda: tf.Qwen2Config(**_DECODER, use_sliding_window=True, sliding_window=4, max_window_layers=1),
        _labelled,
    ),
    "qwen3": (
        tf.Qwen3ForCausalLM,
        lambda: tf.Qwen3Config(**_DECODER, head_dim=16, tie_word_embeddings=True),
        _labelled,
    ),
    "mistral": (tf.MistralForCausalLM, lambda: tf.MistralConfig(**_DECODER, sliding_window=5), _labelled),
    "gemma3": (
        tf.Gemma3ForCausalLM,
        lambda: tf.Gemma3TextConfig(
            **_DECODER, head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"]
        ),
        _labelled,
    ),
    "phi3": (tf.Phi3ForCausalLM, lambda: tf.Phi3Config(**_DECODER), _labelled),
    "mixtral": (
        tf.MixtralForCausalLM,
        lambda: tf.MixtralConfig(**_DECODER, num_local_experts=4, num_experts_per_tok=2),
        lambda model: _labelled(model) | {"output_router_logits": True},  # adds the loss that balances the experts
    ),
    "mamba": (
        tf.MambaForCausalLM,
        lambda: tf.MambaConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, conv_kernel=4, expand=2,
            time_step_rank=4,
            pad_token_id=0, bos_token_id=1, eos_token_id=2,
        ),
        _labelled,
    ),
}  # fmt: skip
SEQUENCE = {
    "t5": (
        tf.T5ForConditionalGeneration,
        lambda: tf.T5Config(
            vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
            feed_forward_proj="gated-gelu",
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=2, dropout_rate=0.0,
        ),
        _translation,
    ),
    "bart": (
        tf.BartForConditionalGeneration,
        lambda: tf.BartConfig(
            vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
        ),
        _translation,
    ),
    "whisper": (
        tf.WhisperForConditionalGeneration,
        lambda: tf.WhisperConfig(
            vocab_size=VOCABULARY, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=30,
            max_target_positions=32,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
            begin_suppress_tokens=None,
        ),
        _speech,
    ),
}  # fmt: skip
OTHERS = {
    "bert": (tf.BertForSequenceClassification, lambda: tf.BertConfig(**_ENCODER), _classes),
    "bert_mlm": (tf.BertForMaskedLM, lambda: tf.BertConfig(**_ENCODER), _labelled),
    "roberta": (tf.RobertaForSequenceClassification, lambda: tf.RobertaConfig(**_ENCODER), _classes),
    "distilbert": (
        tf.DistilBertForSequenceClassification,
        lambda: tf.DistilBertConfig(
            vocab_size=VOCABULARY, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64,
            num_labels=3,
        ),
        _classes,
    ),
    "deberta_v2": (
        tf.DebertaV2ForSequenceClassification,
        lambda: tf.DebertaV2Config(
            **_ENCODER, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
            norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False, conv_kernel_size=3,
        ),
        _classes,
    ),
    "vit": (tf.ViTForImageClassification, lambda: tf.ViTConfig(**_VISION, num_labels=3), _image_and_class),
    "dinov2": (
        tf.Dinov2ForImageClassification,
        lambda: tf.Dinov2Config(**(_VISION | {"patch_size": 4, "image_size": 20}), num_labels=3, use_swiglu_ffn=True),
        # As users run it: images of another size than the position table's, which is interpolated.
        lambda model: {"pixel_values": torch.randn(2, 3, 32, 24), "labels": torch.tensor([0, 1])},
    ),
    "clip": (
        tf.CLIPModel,
        lambda: tf.CLIPConfig(text_config=_TOWER, vision_config=_VISION | {"projection_dim": 24}, projection_dim=24),
        lambda model: _image_and_text(model) | {"return_loss": True},
    ),
    "siglip": (
        tf.SiglipModel,
        lambda: tf.SiglipConfig(
            text_config={k: v for k, v in _TOWER.items() if k != "projection_dim"} | {"projection_size": 32},
            vision_config=_VISION,
        ),
        lambda model: _image_and_text(model) | {"return_loss": True},
    ),
    "convnext": (
        tf.ConvNextForImageClassification,
        lambda: tf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], image_size=64, num_labels=3),
        _image_and_class,
    ),
    "swin": (
        tf.SwinForImageClassification,
        lambda: tf.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=3
        ),
        _image_and_class,
    ),
    "segformer": (
        tf.SegformerForSemanticSegmentation,
        lambda: tf.SegformerConfig(
            depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4],
            decoder_hidden_size=16,
            num_labels=3,
        ),
        _segmentation,
    ),
    "detr": (
        tf.DetrForObjectDetection,
        lambda: tf.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=tf.ResNetConfig(
                embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], out_features=["stage4"]
            ),
            d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=48, decoder_ffn_dim=48, num_queries=6, num_labels=3,
        ),
        _detection,
    ),
    "wav2vec2": (
        tf.Wav2Vec2ForCTC,
        lambda: tf.Wav2Vec2Config(
            vocab_size=32, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            conv_dim=[16, 16, 16], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=2,
            mask_time_prob=0.0, apply_spec_augment=False, layerdrop=0.0, ctc_loss_reduction="mean",
        ),
        _waveform,
    ),
}  # fmt: skip
_PLAIN = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
# What structures the named ones lack: alibi, learned positions, soft caps, latent attention, sinks, short convolutions.
_MORE = {
    "Gemma2": lambda c: c(**_DECODER, head_dim=8, sliding_window=4),
    "Olmo2": lambda c: c(**_DECODER),
    "Falcon": lambda c: c(**_PLAIN, alibi=True),
    "Bloom": lambda c: c(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4),
    "OPT": lambda c: c(**_PLAIN, ffn_dim=48, word_embed_proj_dim=32, pad_token_id=0),
    "GPTNeoX": lambda c: c(**_PLAIN, intermediate_size=48),
    "Mamba2": lambda c: c(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=1,
        chunk_size=4,
    ),
    "Qwen3Moe": lambda c: c(**_DECODER, head_dim=8, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2),
    "DeepseekV3": lambda c: c(
        **_DECODER | {"num_key_value_heads": 4}, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
        first_k_dense_replace=1, moe_intermediate_size=24,
    ),
    "GptOss": lambda c: c(**_DECODER, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
    "Lfm2": lambda c: c(**_DECODER, layer_types=["conv", "full_attention"]),
}  # fmt: skip
MORE = {
    name: (
        getattr(tf, f"{name}ForCausalLM"),
        lambda make=make, name=name: make(getattr(tf, f"{name}Config")),
        _labelled,
    )
    for name, make in _MORE.items()
    if hasattr(tf, f"{name}ForCausalLM")  # releases differ
}
ALL = CAUSAL | SEQUENCE | OTHERS | MORE


def build(name):
    """A model in evaluation mode and its inputs, on the CPU, the same at every call."""
    torch.manual_seed(0)
    kind, configuration, inputs = ALL[name]
    model = kind(configuration()).eval()
    for parameter in model.parameters():
        # Wider than the usual initialisation, and no zeros: a term that is lost shows.
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
        elif not parameter.any():
            torch.nn.init.normal_(parameter, std=0.05)
    return model, inputs(model)


def generating(inputs):
    """What `generate` takes of the inputs."""
    return {k: v for k, v in inputs.items() if k in ("input_ids", "attention_mask", "input_features")}


def moved(inputs, device, dtype=None):
    return {k: _move(v, device, dtype) for k, v in inputs.items()}


def _move(value, device, dtype):
    if isinstance(value, list):
        return [moved(v, device, dtype) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype if value.is_floating_point() else None)

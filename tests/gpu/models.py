"""Random DeepSeek-OCR-2 models: tiny ones for a CPU, and one of the published size.

They cannot read. They prove that this engine computes what the stock classes
compute on the same weights, and what a page costs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = "\n<|grounding|>Convert the document to markdown."
SPECIAL = [
    "<|begin▁of▁sentence|>",
    "<|end▁of▁sentence|>",
    "<|▁pad▁|>",
    "<image>",
    "<|grounding|>",
    "<|ref|>",
    "<|/ref|>",
    "<|det|>",
    "<|/det|>",
    "<td>",
    "</td>",
]


def tiny_config(**text: Any) -> Any:
    """A configuration with every part of the model and hardly any weights."""
    from transformers import DeepseekOcr2Config

    sizes: dict[str, Any] = {
        "vocab_size": 288,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 48,
        "max_position_embeddings": 2048,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "initializer_range": 0.2,
    }
    return DeepseekOcr2Config(
        text_config={**sizes, **text},
        vision_config={
            "sam_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "global_attn_indexes": [1],
                "output_channels": 16,
                "downsample_channels": [24, 32],
                # The default of 1e-10 would make every random image look the same.
                "initializer_range": 0.2,
            },
            "encoder_config": {
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "initializer_range": 0.2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            },
        },
        image_token_id=3,
    )


def full_config() -> Any:
    """The published sizes."""
    from transformers import DeepseekOcr2Config

    return DeepseekOcr2Config(
        text_config={
            "vocab_size": 129280,
            "hidden_size": 1280,
            "intermediate_size": 6848,
            "num_hidden_layers": 12,
            "num_attention_heads": 10,
            "num_key_value_heads": 10,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "moe_intermediate_size": 896,
            "max_position_embeddings": 8192,
            "mlp_layer_types": ["dense"] + ["sparse"] * 11,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "bos_token_id": 0,
            "eos_token_id": 1,
        },
        vision_config={
            "sam_config": {},
            "encoder_config": {
                "hidden_size": 896,
                "intermediate_size": 4864,
                "num_hidden_layers": 24,
                "num_attention_heads": 14,
                "num_key_value_heads": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            },
        },
    )


def save_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer with the model's marks, ids as in the tiny configuration."""
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate([*SPECIAL, *letters])}
    inner = Tokenizer(BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL[:5]])
    inner.add_tokens([AddedToken(token, normalized=False) for token in SPECIAL[5:]])
    first = SPECIAL[0]
    inner.post_processor = TemplateProcessing(single=f"{first} $A", special_tokens=[(first, 0)])
    PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        pad_token=SPECIAL[2],
    ).save_pretrained(folder)


def stock_model(config: Any, seed: int = 0) -> Any:
    """The stock classes with random weights, fp32, on the CPU."""
    import torch
    from transformers import DeepseekOcr2ForConditionalGeneration

    torch.manual_seed(seed)
    model = DeepseekOcr2ForConditionalGeneration._from_config(config, attn_implementation="sdpa")
    for name, parameter in model.named_parameters():
        if "rel_pos" in name or "pos_embed" in name:
            torch.nn.init.normal_(parameter, std=0.2)
        elif name.endswith("norm.weight") or "layernorm" in name or "layer_norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model.eval()


def save_tiny(folder: Path, seed: int = 0, **text: Any) -> Any:
    """Save a tiny checkpoint in the original layout; the stock model it came from."""
    model = stock_model(tiny_config(**text), seed)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def save_native(model: Any, folder: Path) -> None:
    """Save the same weights under the native names, experts fused."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model.config.to_dict(), default=str))
    save_tokenizer(folder)

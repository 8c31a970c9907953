"""vLLM with a small model of random weights: what it starts with, and a few generated tokens.

There is nothing to download: the model is a configuration alone, and the prompt is token numbers.
"""

import argparse
import json
import os
import tempfile

import torch
import vllm

import meter

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 1024, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": False, "hidden_act": "silu", "rope_theta": 10000.0
}


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--part", type=float, default=0.8, help="of the memory it is told of")
    options = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(CONFIG, f)
        model = vllm.LLM(model=folder, load_format="dummy", skip_tokenizer_init=True,
                         gpu_memory_utilization=options.part, max_model_len=256, enforce_eager=True)
        parameters = vllm.SamplingParams(max_tokens=16, detokenize=False, ignore_eos=True)
        out = model.generate({"prompt_token_ids": [1, 5, 7, 11]}, parameters)
        tokens = len(out[0].outputs[0].token_ids)
    meter.result(vllm=vllm.__version__, tokens=tokens, total_bytes=torch.cuda.mem_get_info()[1])


if __name__ == "__main__":
    main()

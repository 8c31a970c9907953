"""vLLM's start, as far as a device that computes nothing lets it come: python with_vllm.py CASE.

The model has two layers and random weights: no file of weights is read. FlashInfer, which vLLM
prefers for sampling, is left out of the environment for its size.
"""

import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_USE_FLASHINFER_SAMPLER="0",
                  VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")

from say import memory as size, show

MODEL = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256,
             intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, head_dim=64, vocab_size=1024, max_position_embeddings=512,
             rms_norm_eps=1e-5, hidden_act="silu", torch_dtype="bfloat16", bos_token_id=1,
             eos_token_id=2, tie_word_embeddings=False, rope_theta=10000.0)


def platform():
    """Which device vLLM finds, by the management library and before any context."""
    from vllm.platforms import current_platform as found
    show("platform", type(found).__name__)
    show("device", found.get_device_name(0))
    show("capability", found.get_device_capability(0))
    show("uuid", found.get_device_uuid(0))
    size("total", found.get_device_total_memory(0))


def engine():
    """A model and its cache, without compiling."""
    from vllm import LLM
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(MODEL, f)
        return LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, seed=1,
                   enforce_eager=True, max_model_len=256, max_num_seqs=8,
                   gpu_memory_utilization=0.75).llm_engine


def start():
    """An engine: its model, the profile of memory, and the cache that fills what is left."""
    served = engine()  # which forgets its cache when it goes
    cache = served.vllm_config.cache_config
    layers, both = MODEL["num_hidden_layers"], 2  # both: keys and values
    token = layers * both * MODEL["num_key_value_heads"] * MODEL["head_dim"] * 2  # of 2 bytes each
    size("cache", cache.num_gpu_blocks * cache.block_size * token)
    show("blocks of tokens", cache.block_size)


def steps():
    """Requests that are scheduled, run through the model and sampled, which is as far as it comes:
    how many tokens were sampled is a tensor that a kernel fills (AsyncOutput.get_output), so no
    request gets any, and LLM.generate would go on for ever."""
    import torch
    from vllm import SamplingParams
    served = engine()
    for n in range(4):
        served.add_request(str(n), {"prompt_token_ids": list(range(3, 30 + n))},
                           SamplingParams(max_tokens=4, detokenize=False, temperature=0))
    ran = [served.step() for _ in range(20)]
    torch.cuda.synchronize()
    show("steps", len(ran))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)  # what is left to Python's end waits for threads that wait for kernels' results

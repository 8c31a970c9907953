"""What PyTorch's allocator sees of a cap: the total, the ordinary error at its end, and life after
it."""

import torch

import libcuda
import meter


def main():
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0).total_memory
    held, reached, message = [], 0, ""
    chunk = max(total // 64, 2 << 20)
    try:
        while len(held) < 4096:
            held.append(torch.empty(chunk, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as e:
        message = str(e)
    reached = torch.cuda.memory_reserved()
    expandable = any(s.get("is_expandable") for s in torch.cuda.memory_snapshot())
    meter.stage("full")
    held.clear()
    torch.cuda.empty_cache()
    after = torch.cuda.mem_get_info()[0]
    x = torch.ones(1024, 1024, device="cuda")
    alive = float((x @ x).sum().item()) == 1024.0**3
    smi = libcuda.nvml_memory()
    meter.result(
        total_bytes=total,
        free_bytes=free,
        properties_total_bytes=properties,
        reached_bytes=reached,
        out_of_memory=message[:300],
        free_after_bytes=after,
        alive=alive,
        expandable=expandable,
        nvml_total_bytes=smi and smi[0],
        torch=torch.__version__,
    )


if __name__ == "__main__":
    main()

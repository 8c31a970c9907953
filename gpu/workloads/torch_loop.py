"""PyTorch loops: a matrix product, a training step, an inference; eager, as a CUDA graph, or
compiled."""

import argparse
import itertools

import torch
from torch import nn

import meter


class Block(nn.Module):
    """A transformer block without dropout: the same work at every step."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads,
                                               c // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def network(width, depth, device, dtype):
    torch.manual_seed(1)
    return nn.Sequential(*[Block(width, width // 64) for _ in range(depth)]).to(device, dtype)


def matmul(options, device, dtype):
    a = torch.randn(options.size, options.size, device=device, dtype=dtype)
    b = torch.randn_like(a)
    out = torch.empty_like(a)

    def work():
        for _ in range(options.repeat):
            torch.matmul(a, b, out=out)

    return work


def train(options, device, dtype):
    model = network(options.width, options.depth, device, dtype)
    x = torch.randn(options.batch, options.length, options.width, device=device, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    forward = torch.compile(model) if options.mode == "compile" else model

    def work():
        optimizer.zero_grad(set_to_none=False)
        forward(x).square().mean().backward()
        optimizer.step()

    return work


def infer(options, device, dtype):
    model = network(options.width, options.depth, device, dtype).eval()
    x = torch.randn(options.batch, options.length, options.width, device=device, dtype=dtype)
    forward = torch.compile(model) if options.mode == "compile" else model

    @torch.no_grad()
    def work():
        forward(x)

    return work


def captured(work):
    """The work as a CUDA graph, as the PyTorch documentation has it: warm up on a side stream, then
    capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("what", choices=("matmul", "train", "infer"))
    a.add_argument("--mode", choices=("eager", "graph", "compile"), default="eager")
    a.add_argument("--seconds", type=float, default=5)
    a.add_argument("--size", type=int, default=2048, help="rows and columns of a product")
    a.add_argument("--repeat", type=int, default=20, help="products in one step")
    a.add_argument("--width", type=int, default=1024)
    a.add_argument("--depth", type=int, default=6)
    a.add_argument("--batch", type=int, default=8)
    a.add_argument("--length", type=int, default=256)
    a.add_argument("--ahead",
                   type=int,
                   default=0,
                   help="steps launched before the end of one is waited for")
    a.add_argument("--pause-ms", type=float, default=0)
    a.add_argument("--device", default="cuda", help="cpu tries the workload itself")
    options = a.parse_args()
    on_gpu = options.device != "cpu"
    dtype = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float32
    work = {"matmul": matmul, "train": train, "infer": infer}[options.what](options, options.device,
                                                                            dtype)
    for _ in range(3):
        work()
    if options.mode == "graph":
        work = captured(work)

    marks = [torch.cuda.Event() for _ in range(options.ahead + 1)] if on_gpu else []
    count = itertools.count()

    def step():
        work()
        if not on_gpu:
            return
        n = next(count)
        marks[n % len(marks)].record()
        if n >= options.ahead:
            marks[(n - options.ahead) % len(marks)].synchronize()

    for _ in range(10):
        step()
    meter.loop(step,
               options.seconds,
               options.pause_ms / 1e3,
               torch=torch.__version__,
               mode=options.mode)


if __name__ == "__main__":
    main()

"""A training loop whose data comes from forked workers: children of a process that already uses the
GPU."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import meter


class Numbers(Dataset):
    """Made-up samples, so that every run sees the same ones."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(256, generator=g), i % 10


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--device", default="cuda")
    options = a.parse_args()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Numbers(2048),
                        batch_size=64,
                        num_workers=4,
                        multiprocessing_context="fork",
                        pin_memory=options.device != "cpu")
    losses = []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(options.device)), y.to(options.device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    meter.result(batches=len(losses), first_loss=losses[0], last_loss=losses[-1])


if __name__ == "__main__":
    main()

import argparse
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self, hidden=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        time.sleep(0.03)
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_epochs", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--default_root_dir", default=None)
    parser.add_argument("--ckpt_path", default=None)
    args = parser.parse_args()
    L.seed_everything(1)
    x = torch.randn(80, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=args.batch_size, num_workers=args.num_workers)
    trainer = L.Trainer(
        max_epochs=args.max_epochs, default_root_dir=args.default_root_dir, log_every_n_steps=5, accelerator="auto"
    )
    trainer.fit(Net(), loader, loader, ckpt_path=args.ckpt_path)


if __name__ == "__main__":
    main()

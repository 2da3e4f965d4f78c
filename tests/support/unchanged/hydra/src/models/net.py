import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self, hidden, optimizer):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(8, hidden)
        self.head = torch.nn.Linear(hidden, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.03)
        loss = ((self.head(self.net(batch[0])) - batch[1]) ** 2).mean()
        self.log("train/loss", loss)
        print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", ((self.head(self.net(batch[0])) - batch[1]) ** 2).mean())

    def configure_optimizers(self):
        return self.hparams.optimizer(self.parameters())


class Data(L.LightningDataModule):
    def __init__(self, batch_size, num_workers):
        super().__init__()
        self.batch_size, self.num_workers = batch_size, num_workers
        x = torch.randn(80, 8)
        self.data = TensorDataset(x, x.sum(1, keepdim=True))

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=self.batch_size, num_workers=self.num_workers)

    def val_dataloader(self):
        return DataLoader(self.data, batch_size=self.batch_size, num_workers=self.num_workers)

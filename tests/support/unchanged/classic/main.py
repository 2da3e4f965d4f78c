import argparse
import os
import shutil
import time

import torch
from torch import nn

parser = argparse.ArgumentParser(description="A classifier")
parser.add_argument("-a", "--arch", default="tiny")
parser.add_argument("-j", "--workers", default=0, type=int)
parser.add_argument("--epochs", default=25, type=int)
parser.add_argument("--start-epoch", default=0, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("-p", "--print-freq", default=10, type=int)
parser.add_argument("--resume", default="", type=str, metavar="PATH", help="path to latest checkpoint")
parser.add_argument("-e", "--evaluate", dest="evaluate", action="store_true")
best_acc1 = 0


def main():
    global best_acc1
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    data = torch.randn(160, 8)
    target = (data.sum(1) > 0).long()
    if args.resume:
        if os.path.isfile(args.resume):
            print(f"=> loading checkpoint '{args.resume}'")
            checkpoint = torch.load(args.resume)
            args.start_epoch = checkpoint["epoch"]
            best_acc1 = checkpoint["best_acc1"]
            model.load_state_dict(checkpoint["state_dict"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            scheduler.load_state_dict(checkpoint["scheduler"])
        else:
            print(f"=> no checkpoint found at '{args.resume}'")
    if args.evaluate:
        print(validate(data, target, model))
        return
    for epoch in range(args.start_epoch, args.epochs):
        model.train()
        for i in range(0, len(data), args.batch_size):
            loss = criterion(model(data[i : i + args.batch_size]), target[i : i + args.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.03)
            if i // args.batch_size % args.print_freq == 0:
                print(f"Epoch: [{epoch}][{i // args.batch_size}/10]\tLoss {loss.item():.4e}", flush=True)
        acc1 = validate(data, target, model)
        scheduler.step()
        is_best = acc1 >= best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "arch": args.arch,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            },
            is_best,
        )


def validate(data, target, model):
    model.eval()
    with torch.no_grad():
        return (model(data).argmax(1) == target).float().mean().item()


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()

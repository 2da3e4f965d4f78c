"""Ten mistakes that cost runs: each with public code shapes that have it and that do not."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path

import pytest

from leasehold.doctor.lint import Remark, lint_paths
from leasehold.errors import UserError


def lint_text(text: str) -> list[Remark]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "source.py").write_text(text)
        return lint_paths([Path(folder)])


LOOP = "for x, y in loader:\n    loss = f(model(x), y)\n    loss.backward()\n    opt.step()\n"

CASES = {
    "worker-rng": (
        """
        class Crops(Dataset):
            def __init__(self, files):
                self.files, self.rng = files, None
                self.rng = np.random.default_rng(0)
            def __getitem__(self, i):
                return crop(self.files[i], self.rng.integers(10))
        """,
        """
        class Crops(Dataset):
            def __init__(self, files):
                self.files = files
            def __getitem__(self, i):
                return crop(self.files[i], torch.randint(10, (1,)).item())
        """,
    ),
    "set-epoch": (
        "sampler = DistributedSampler(data)\nfor epoch in range(9):\n    train(loader)\n",
        "sampler = DistributedSampler(data)\nfor epoch in range(9):\n    sampler.set_epoch(epoch)\n    train(loader)\n",
    ),
    "scaler-order": (
        """
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        """,
        """
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        """,
    ),
    "softmax-cross-entropy": (
        """
        criterion = nn.CrossEntropyLoss()
        def step(x, y):
            probs = F.softmax(model(x), dim=1)
            loss = criterion(probs, y)
            loss.backward()
        """,
        """
        criterion = nn.CrossEntropyLoss()
        def step(x, y):
            logits = model(x)
            loss = criterion(logits, y)
            loss.backward()
            return F.softmax(logits, dim=1)
        """,
    ),
    "missing-eval": (
        """
        def evaluate(model, loader):
            with torch.no_grad():
                for x, y in loader:
                    out = model(x)
        """,
        """
        def evaluate(model, loader):
            model.eval()
            with torch.no_grad():
                for x, y in loader:
                    out = model(x)
        """,
    ),
    "graph-kept": (
        LOOP + "    total_loss += loss\n",
        LOOP + "    total_loss += loss.item()\n",
    ),
    "gated-collective": (
        "if dist.get_rank() == 0:\n    save(model)\n    dist.barrier()\n",
        "if dist.get_rank() == 0:\n    save(model)\ndist.barrier()\n",
    ),
    "rank-as-device": (
        "rank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)\n",
        "local = int(os.environ['LOCAL_RANK'])\nrank = int(os.environ['RANK'])\ntorch.cuda.set_device(local)\n",
    ),
    "unsafe-save": (
        LOOP + "    torch.save(model.state_dict(), os.path.join(out, 'latest.pt'))\n",
        LOOP + "    torch.save(model.state_dict(), tmp)\n    os.replace(tmp, os.path.join(out, 'latest.pt'))\n",
    ),
    "resume-drops-state": (
        "if args.resume:\n    ckpt = torch.load(args.resume)\n    model.load_state_dict(ckpt['model'])\n" + LOOP,
        "if args.resume:\n    ckpt = torch.load(args.resume)\n    model.load_state_dict(ckpt['model'])\n"
        "    optimizer.load_state_dict(ckpt['opt'])\n" + LOOP,
    ),
}  # fmt: skip

IN_PLACE = {
    "a parameter's default": (
        LOOP + "def save(state, filename='checkpoint.pth.tar'):\n    torch.save(state, filename)\n"
    ),
    "a pickle through open": LOOP + "    with open(os.path.join(out, 'c.pkl'), 'wb') as f:\n        dump(s, f)\n",
    "a keyword mode": LOOP + "    f = open(out + '/last.ckpt', mode='wb')\n",
    "a name given above": LOOP + "    path = os.path.join(out, 'last.pt')\n    torch.save(model, path)\n",
    "safetensors": LOOP + "    save_file(model.state_dict(), os.path.join(out, 'last.safetensors'))\n",
    "a training without torch": "state = pickle.load(f)\nwith open('s.pkl', 'wb') as f:\n    pickle.dump(s, f)\n",
}  # fmt: skip
NOT_IN_PLACE = {
    "a new name each time": LOOP + "    with open(f'{out}/step_{step}.pkl', 'wb') as f:\n        pickle.dump(s, f)\n",
    "renamed": LOOP + "    with open(out + '/a.pkl', 'wb') as f:\n        pickle.dump(s, f)\n    os.replace(a, b)\n",
    "no checkpoint": LOOP + "    with open(out + '/picture.png', 'wb') as f:\n        f.write(png)\n",
    "read": LOOP + "    with open(out + '/a.pkl', 'rb') as f:\n        s = pickle.load(f)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_save_onto_the_only_copy_is_marked(name: str) -> None:
    assert "unsafe-save" in {remark.rule for remark in lint_text(IN_PLACE[name])}


@pytest.mark.parametrize("name", NOT_IN_PLACE)
def test_a_save_that_leaves_the_one_before_is_not_marked(name: str) -> None:
    assert "unsafe-save" not in {remark.rule for remark in lint_text(NOT_IN_PLACE[name])}


PASSED_ON = (
    "import torch\ndef save_on_master(*args, **kwargs):\n    if is_main():\n        torch.save(*args, **kwargs)\n"
)
CALLER = LOOP + "    utils.save_on_master(state, os.path.join(out, 'checkpoint.pth'))\n"


def test_a_save_through_another_files_function_is_marked_at_its_caller(tmp_path):
    (tmp_path / "utils.py").write_text(PASSED_ON)
    (tmp_path / "train.py").write_text(CALLER)
    (remark,) = lint_paths([tmp_path])
    assert (remark.rule, remark.path.rpartition("/")[2], remark.line) == ("unsafe-save", "train.py", 5)


def test_a_function_that_saves_aside_and_renames_marks_no_caller(tmp_path):
    (tmp_path / "utils.py").write_text(
        "import os, torch\ndef save_on_master(state, path):\n"
        "    torch.save(state, path + '.tmp')\n    os.replace(path + '.tmp', path)\n"
    )
    (tmp_path / "train.py").write_text(CALLER)
    assert lint_paths([tmp_path]) == []


def test_a_script_that_prepares_data_beside_a_training_is_left_alone(tmp_path):
    (tmp_path / "prepare.py").write_text("with open('data/meta.pkl', 'wb') as f:\n    pickle.dump(meta, f)\n")
    (tmp_path / "train.py").write_text(LOOP)
    assert lint_paths([tmp_path]) == []


HARMLESS = {
    "a barrier on each side lets one rank prepare": (
        "if local_rank != 0:\n    dist.barrier()\ndata = prepare()\nif local_rank == 0:\n    dist.barrier()\n"
    ),
    "losses summed for one backward": (
        "for k in heads:\n    part = f(k)\n    total += part\ntotal.backward()\n"
    ),
    "a new file each epoch": LOOP + "torch.save(model.state_dict(), f'{out}/epoch-{epoch}.pt')\n",
    "the rank modulo the cards": (
        "rank = dist.get_rank()\ndevice = rank % torch.cuda.device_count()\ntorch.cuda.set_device(device)\n"
    ),
    "no shuffling is meant": "s = DistributedSampler(d, shuffle=False)\n",
    "a lightning hook": (
        "class M(LightningModule):\n    def validation_step(self, b, i):\n"
        "        with torch.no_grad():\n            self.model(b)\n"
    ),
    "attention has a softmax too": (
        "class A(nn.Module):\n    def forward(self, q, k, v):\n        w = F.softmax(q @ k, -1)\n        return w @ v\n"
        "loss = F.cross_entropy(model(x), y)\nloss.backward()\n"
    ),
    "a set has a method named reduce": "if rank == 0:\n    functools.reduce(f, xs)\n",
}  # fmt: skip


@pytest.mark.parametrize("rule", sorted(CASES))
def test_the_mistake_is_found(rule):
    assert rule in [remark.rule for remark in lint_text(textwrap.dedent(CASES[rule][0]))]


@pytest.mark.parametrize("rule", sorted(CASES))
def test_its_remedy_is_not(rule):
    assert rule not in [remark.rule for remark in lint_text(textwrap.dedent(CASES[rule][1]))]


@pytest.mark.parametrize("what", sorted(HARMLESS))
def test_harmless_shapes_are_left_alone(what):
    assert lint_text(HARMLESS[what]) == []


def test_a_constant_seed_in_every_worker_is_found():
    text = "def seed(i):\n    np.random.seed(0)\nDataLoader(d, num_workers=4, worker_init_fn=seed)\n"
    assert [remark.rule for remark in lint_text(text)] == ["worker-rng"]


def test_a_folder_is_read_whole_and_says_where(tmp_path, odd_name):
    folder = tmp_path / odd_name
    folder.mkdir()
    (folder / "train.py").write_text("s = DistributedSampler(d)\n")
    (folder / "broken.py").write_text("def (:\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.py").write_text("s = DistributedSampler(d)\n")
    (remark,) = lint_paths([folder])
    assert (remark.path, remark.line, remark.id) == (str(folder / "train.py"), 1, "D22")


def test_set_epoch_in_another_file_counts(tmp_path):
    (tmp_path / "data.py").write_text("s = DistributedSampler(d)\n")
    (tmp_path / "train.py").write_text("loader.sampler.set_epoch(3)\n")
    assert lint_paths([tmp_path]) == []


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(UserError, match="not there"):
        lint_paths([tmp_path / "none"])

"""Requirements files as people write them, and what is left of them where the box has its torch. Runs under PyPy."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import List

import pytest

from leasehold.caretaker.setup.requirements import Copies, Keep, logical_lines, name_of, read_text

KEEP = Keep(frozenset({"torch", "triton", "nvidia-cudnn-cu12"}), frozenset({"torchvision", "torchaudio"}))


@pytest.mark.parametrize(
    "line, name",
    [
        ("torch", "torch"),
        ("torch==2.0.1", "torch"),
        ("torch ==2.0.1 ; python_version<'3.12'", "torch"),
        ("Torch>=2,<3", "torch"),
        ("torch[opt,cuda]~=2.0", "torch"),
        ("torch (==2.0)", "torch"),
        ("torch===2.0.1+cu118", "torch"),
        ("torch;sys_platform=='linux'", "torch"),
        ("torch @ https://x/torch-2.0-cp310-none-any.whl", "torch"),
        ("torch@https://x/other.whl", "torch"),
        ("torch==2.0 --hash=sha256:abc", "torch"),
        ("https://download.pytorch.org/whl/cu118/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl", "torch"),
        ("./wheels/torchvision-0.15-py3-none-any.whl", "torchvision"),
        ("/opt/torch-2.0.tar.gz", "torch"),
        ("git+https://github.com/pytorch/vision.git@v0.15#egg=torchvision", "torchvision"),
        ("-e git+ssh://git@host/x.git#subdirectory=a&egg=torchaudio", "torchaudio"),
        ("nvidia_cudnn.cu12==9", "nvidia-cudnn-cu12"),
        ("torch-geometric==2.3", "torch-geometric"),
        ("torchmetrics", "torchmetrics"),
        ("pytorch-lightning", "pytorch-lightning"),
        ("-e .", ""),
        ("-e ./torch", ""),
        ("--index-url https://download.pytorch.org/whl/cu118", ""),
        ("--extra-index-url=https://x/torch", ""),
        ("--pre", ""),
        ("", ""),
        ("${WHICH}==1", ""),
        ("git+https://github.com/x/torch", ""),
    ],
)
def test_the_name_a_line_asks_for(line: str, name: str) -> None:
    assert name_of(line) == name


def test_lines_are_joined_and_comments_dropped_as_pip_does() -> None:
    text = "a \\\n  ==1\n# note \\\nb # why\n\nc#not-a-comment\nlast \\"
    assert [(number, line) for number, _, line in logical_lines(text)] == [
        (1, "a   ==1"), (3, ""), (4, "b"), (5, ""), (6, "c#not-a-comment"), (7, "last"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"torch==2\r\nn\xc3\xa4me\r\n",
        codecs.BOM_UTF8 + b"torch==2\nn\xc3\xa4me\n",
        codecs.BOM_UTF16_LE + "torch==2\r\nnäme\r\n".encode("utf-16-le"),  # what PowerShell's > writes
        codecs.BOM_UTF16_BE + "torch==2\nnäme\n".encode("utf-16-be"),
        "torch==2\rnäme\r".encode("latin-1"),
    ],
    ids=["crlf", "bom", "utf-16le", "utf-16be", "latin-1, old mac"],
)
def test_every_encoding_and_line_end_is_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r.txt").write_bytes(data)
    copies = Copies(KEEP, str(tmp_path), str(tmp_path / "made"))
    made = read_text(copies.of(str(tmp_path / "r.txt")))
    assert [(one.file, one.line, one.text) for one in copies.left_out] == [("r.txt", 1, "torch==2")]
    assert made is not None and "näme" in made.split("\n")
    assert (tmp_path / "r.txt").read_bytes() == data


def filtered(folder: Path, name: str) -> List[str]:
    made = read_text(Copies(KEEP, str(folder), str(folder / "made")).of(str(folder / name)))
    assert made is not None
    return [line for line in made.split("\n") if line and not line.startswith("#")]


def test_what_the_box_has_goes_and_what_it_lacks_is_only_unpinned(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text(
        "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.0.1 \\\n  --hash=sha256:aa \\\n"
        "  --hash=sha256:bb\ntorchvision[all]==0.15.2 ; python_version > '3'\ntorchaudio\nnumpy<2  # old\ntriton\n"
    )
    assert filtered(tmp_path, "r.txt") == [
        "--extra-index-url https://download.pytorch.org/whl/cu118",
        "torchvision[all] ; python_version > '3'",
        "torchaudio",
        "numpy<2  # old",
    ]


def test_included_files_are_followed_from_where_they_are_named(tmp_path: Path, odd_name: str) -> None:
    folder = tmp_path / odd_name.replace("\n", " ")
    (folder / "sub").mkdir(parents=True)
    (folder / "r.txt").write_text("-r sub/a.txt\n-c sub/c.txt\n-r missing.txt\n-r https://host/r.txt\n-f wheels\nx\n")
    (folder / "sub" / "a.txt").write_text("-r ../r.txt\n--requirement=b.txt\ntorch\n")  # in a circle
    (folder / "sub" / "b.txt").write_text("plain==1\n")
    (folder / "sub" / "c.txt").write_text("torch==2.0\ntorchvision==0.15\nx==1\n")
    copies = Copies(KEEP, str(folder), str(tmp_path / "made"))
    top = read_text(copies.of(str(folder / "r.txt"))) or ""
    assert sorted(one.say() for one in copies.left_out) == [
        "sub/a.txt:3 torch", "sub/c.txt:1 torch==2.0", "sub/c.txt:2 torchvision==0.15",
    ]  # fmt: skip
    assert top.count("made") == 2 and "-r missing.txt" in top and "-r https://host/r.txt" in top
    assert not (tmp_path / "made" / "03-b.txt").exists()  # nothing to change there: it is named where it lies
    inner = "".join(path.read_text() for path in (tmp_path / "made").iterdir())
    assert "b.txt" in inner and str(folder) in inner.replace("'\"'\"'", "'")


def test_a_file_without_frameworks_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("numpy\n-r b.txt\n")
    (tmp_path / "b.txt").write_text("scipy\n")
    copies = Copies(KEEP, str(tmp_path), str(tmp_path / "made"))
    assert copies.of(str(tmp_path / "r.txt")) == str(tmp_path / "r.txt")
    assert not (tmp_path / "made").exists()


def test_a_password_in_an_address_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("torch @ https://me:s3cret@host/torch-2.0-py3-none-any.whl\n")
    copies = Copies(KEEP, str(tmp_path), str(tmp_path / "made"))
    copied = copies.of(str(tmp_path / "r.txt"))
    assert "s3cret" not in copies.left_out[0].say() and "host/torch-2.0" in copies.left_out[0].say()
    assert "s3cret" not in Path(copied).read_text("utf-8-sig")

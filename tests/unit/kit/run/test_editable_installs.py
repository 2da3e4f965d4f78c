"""Which set-ups would make an environment import a run's folder. Runs under PyPy too."""

from __future__ import annotations

import pytest

from leasehold.kit.run.editable_installs import editable_installs


@pytest.mark.parametrize(
    "setup, found",
    [
        ("pip install -e .", ["pip install -e ."]),
        ("python -m pip install -q --editable=.", ["python -m pip install -q --editable=."]),
        ("cd sub && pip3 install -e '.[dev]' && echo ok", ["pip3 install -e .[dev]"]),
        ("uv pip install --system -e .", ["uv pip install --system -e ."]),
        ("/opt/conda/bin/pip install -e.", ["/opt/conda/bin/pip install -e."]),
        (". /srv/venv/bin/activate && pip install -e .", ["pip install -e ."]),
        ("python setup.py develop", ["python setup.py develop"]),
        ("pip install -e git+https://x/y#egg=z", ["pip install -e git+https://x/y#egg=z"]),
        ("uv venv && uv pip install --system -e .", ["uv pip install --system -e ."]),
        ("pip install -r requirements.txt", []),
        ("pip install .", []),
        ("echo pip install -- '-e .'", []),
        ("python -m venv .venv && . .venv/bin/activate && pip install -e .", []),
        ("python -m venv .venv; .venv/bin/pip install -e .", []),
        ('. "$PWD/env/bin/activate"\npip install -e .', []),
        ("uv venv && uv pip install -e .", []),
        ("uv sync", []),
        ("", []),
    ],
)
def test_an_editable_install_is_found_unless_the_environment_is_own(setup: str, found: "list[str]") -> None:
    assert editable_installs(setup) == found

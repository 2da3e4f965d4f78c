"""Overlays: your own files correct and add platforms, and a mistake in one names that file."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from leasehold.errors import UserError
from leasehold.facts.profiles import Shelf

DOCS = Path(__file__).resolve().parents[3] / "docs" / "platforms-own.md"


@pytest.fixture
def own(tmp_path):
    """Lay overlay files into a folder and return a shelf with it."""
    folder = tmp_path / "profiles"
    folder.mkdir()

    def lay(**texts: str) -> Shelf:
        for name, text in texts.items():
            (folder / f"{name.replace('_', '-')}.yaml").write_text(text, "utf-8")
        return Shelf(overlays=(folder,))

    return lay


def refusal(shelf: Shelf, name: str) -> UserError:
    with pytest.raises(UserError) as caught:
        shelf.load(name)
    return caught.value


# ---------------------------------------------------------------- correcting


def test_a_file_of_a_shipped_name_corrects_only_what_it_says(own):
    profile = own(runpod="title: my pods\ntiers:\n  - {name: volume disk, size: 80 GB}\n").load("runpod")
    shipped = Shelf().load("runpod")
    assert profile.title == "my pods"
    assert profile.state_tier.size == "80 GB"
    assert profile.state_tier.rates == shipped.state_tier.rates
    assert profile.verbs == shipped.verbs
    assert profile.origin[0] == "runpod.yaml"
    assert profile.origin[-1].endswith("profiles/runpod.yaml")


def test_a_corrected_survival_changes_what_the_verbs_delete(own):
    text = "tiers:\n  - name: data disk\n    survives: {stop: no}\n"
    parking = own(autodl=text).load("autodl").parking
    assert parking is not None
    assert parking.deletes == ("data disk",)


def test_an_entry_of_a_new_name_is_added_behind_the_others(own):
    survives = "{stop: yes, destroy: yes, balance_zero: yes}"
    text = f"tiers:\n  - {{name: lab disk, path: /lab, survives: {survives}, source: disks}}\n"
    profile = own(autodl=text).load("autodl")
    assert [tier.name for tier in profile.tiers] == [*(tier.name for tier in Shelf().load("autodl").tiers), "lab disk"]


def test_rules_of_never_are_found_by_name_added_and_removed(own):
    added = "{name: no sudo, commands: [sudo], outcome: warn, why: the lab says so, source: disks}"
    corrected = "{name: conda create, outcome: warn, source: disks}"
    removed = "remove: {never: [Docker inside the instance, a bare python3 in polls]}"
    text = f"environment:\n  {removed}\n  never:\n    - {added}\n    - {corrected}\n    - a text of ours\n"
    shipped, mine = Shelf().load("autodl").environment, own(autodl=text).load("autodl").environment
    outcomes = {rule.name: rule.outcome for rule in mine.rules}
    assert outcomes["no sudo"] == "warn"
    assert outcomes["conda create"] == "warn"
    assert "Docker inside the instance" not in outcomes
    assert len(outcomes) == len(shipped.rules)
    assert mine.never == ("a text of ours",)
    assert next(rule for rule in mine.rules if rule.name == "conda create").commands == shipped.rules[0].commands


@pytest.mark.parametrize(
    "rule, said",
    [
        ("{name: x, commands: [a], outcome: forbid, why: w, source: disks}", "outcome must be one of refuse, warn"),
        ("{name: x, commands: [], outcome: warn, why: w, source: disks}", "commands must name at least one command"),
        ("{name: x, commands: [a; b], outcome: warn, why: w, source: disks}", "commands must be words such as"),
        ("{name: x, commands: [/sbin/a], outcome: warn, why: w, source: disks}", "commands must be words such as"),
        ("{name: x, commands: [a], outcome: warn, why: w}", "source is missing"),
        ("{name: x, commands: [a], outcome: warn, source: disks}", "why is missing"),
        ("{name: x, commands: [a], outcome: warn, why: w, source: hearsay}", "source must be one of"),
        ("{name: x, command: [a], outcome: warn, why: w, source: disks}", "did you mean commands?"),
    ],
)
def test_a_mistake_in_a_rule_names_the_file_the_rule_and_the_key(own, rule, said):
    error = refusal(own(autodl=f"environment:\n  never:\n    - {rule}\n"), "autodl")
    assert "profiles/autodl.yaml" in error.message
    assert "environment.never[x]." in error.message
    assert said in error.message


def test_a_later_folder_wins(tmp_path):
    for folder, title in (("mine", "mine"), ("project", "the project's")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lambda.yaml").write_text(f'title: "{title}"\n', "utf-8")
    shelf = Shelf(overlays=(tmp_path / "mine", tmp_path / "project"))
    assert shelf.load("lambda").title == "the project's"
    assert len(shelf.load("lambda").origin) == 3


def test_a_base_that_is_corrected_is_corrected_for_those_that_extend_it(own):
    shelf = own(autodl="title: corrected\nboot: 9min\n")
    assert shelf.load("autodl-pro").boot_s == 9 * 60


def test_a_folder_that_is_not_there_is_no_mistake(tmp_path):
    assert Shelf(overlays=(tmp_path / "nowhere",)).names() == Shelf().names()


# ---------------------------------------------------------------- adding


def test_a_new_platform_extends_a_shipped_one(own):
    shelf = own(lab="extends: generic-ssh\nid: lab\ntitle: the lab's box\n")
    assert "lab" in shelf.names()
    assert shelf.load("lab").title == "the lab's box"
    assert shelf.load("lab").verbs == Shelf().load("generic-ssh").verbs
    assert Shelf().names() == [name for name in shelf.names() if name != "lab"]


def test_what_is_extended_may_itself_extend(own):
    shelf = own(lab="extends: autodl-pro\ntitle: lab\n", lab_two="extends: lab\ntitle: lab two\n")
    assert shelf.load("lab-two").id == "lab-two"
    assert shelf.load("lab-two").tier("data disk") is None


def test_remove_takes_entries_out_by_name(own):
    text = (
        "extends: runpod\nremove:\n  verbs: [stop]\n  clocks: [balance used up]\n  network: [pods]\n  gotchas: [RP1]\n"
    )
    profile = own(mine=text).load("mine")
    assert profile.verb("stop") is None
    assert "balance used up" not in [clock.name for clock in profile.clocks]
    assert "pods" not in profile.network
    assert "RP1" not in profile.gotchas


def test_a_removed_entry_can_be_written_anew(own):
    text = (
        "extends: lambda\nremove:\n  tiers: [filesystem]\n  verbs: [delete-filesystem]\n"
        "environment: {contract: other}\n"
    )
    profile = own(mine=text).load("mine")
    assert profile.durable_tier is None
    assert profile.environment.contract == "other"
    assert profile.environment.variables, "the rest of the mapping stays"


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    "text, said",
    [
        ("extends: nowhere\n", "nowhere"),
        ("extends: mine\n", "missing"),
        ("extends: 7\n", "extends"),
        ("extends: runpod\nremove: [stop]\n", "remove"),
        ("extends: runpod\nremove: {verbs: stop}\n", "remove.verbs"),
        ("extends: runpod\nremove: {verbs: [explode]}\n", "explode"),
        ("extends: runpod\nremove: {weather: [rain]}\n", "weather"),
        ("extends: runpod\nremove: {tiers: [volume disk]}\n", "role state"),
        ("extends: runpod\nverbs:\n  - {name: stop, reversable: true}\n", "did you mean reversible"),
        ("extends: runpod\nverbs:\n  - {name: stop, source: nowhere}\n", "verbs[stop].source"),
        ("extends: runpod\nverbs:\n  - {name: explode, kind: end}\n", "verbs[explode]"),
        ("extends: runpod\ntiers:\n  - {name: attic, path: /attic, source: storage}\n", "tiers[attic].survives"),
        (
            "extends: runpod\ntiers:\n  - {name: volume disk, survives: {stop: true}}\n",
            "tiers[volume disk].survives.stop",
        ),
        ("extends: runpod\nsigns:\n  - {name: x, source: storage}\n", "signs[x].name a sign has exactly one of"),
        ("extends: runpod\nsigns:\n  - {name: pod variable, file: /x}\n", "exactly one of host, user, env"),
        ("extends: runpod\nsigns:\n  - {name: x, env: A B, source: storage}\n", "signs[x].env"),
        ("extends: runpod\nsigns:\n  - {name: x, file: relative, source: storage}\n", "signs[x].file"),
        ("extends: runpod\nsigns:\n  - {name: x, host: here, source: storage}\n", "signs[x].host"),
        ("extends: runpod\nsigns:\n  - {name: relay address, presence: always}\n", "must be sometimes"),
        ("extends: runpod\nsigns:\n  - {name: x, env: A, presence: often, source: storage}\n", "signs[x].presence"),
        ("extends: runpod\nsigns:\n  - {name: x, env: A}\n", "signs[x].source is missing"),
        ("extends: runpod\nid: other\n", "other"),
        ("extends: runpod\nnotes: [hf_AbCdEfGhIjKlMnOpQrStUvWx]\n", "key or token"),
        ("title: [\n", "line"),
        ("- a\n", "mapping"),
    ],
    ids=str,
)
def test_a_mistake_names_the_file_and_the_key(own, text, said):
    error = refusal(own(mine=text), "mine")
    assert error.code == "platform.overlay_invalid"
    assert error.message.partition(":")[0].endswith("mine.yaml")
    assert said in error.message
    assert "platforms-own.md" in error.hint


def test_signs_are_read_by_themselves_as_with_the_whole_profile(own):
    shelf = own(
        mine="extends: runpod\nid: mine\nsigns:\n  - {name: pod variable, env: OTHER}\n"
        "remove: {clocks: [a stopped pod bills its disk twofold]}\n",
        broken="signs: [",
        runpod="sources:\n  seen: {url: 'https://x.example', verified: 2026-11, confidence: own}\n"
        "signs:\n  - {name: mine, file: /etc/mine, source: seen}\n",
    )
    read = {known.platform: (known.title, known.signs) for known in shelf.signs()}
    whole = {name: shelf.load(name) for name in shelf.names() if name != "broken"}
    assert read == {name: (profile.title, profile.signs) for name, profile in whole.items()}
    assert [sign.value for sign in whole["mine"].signs] == ["ssh.runpod.io", "OTHER", "/etc/mine"]


def test_circles_are_noticed(own):
    assert "circles" in refusal(own(one="extends: two\n", two="extends: one\n"), "one").message


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_bytes(b"title: \xff\xfe\n")
    error = refusal(Shelf(overlays=(tmp_path,)), "mine")
    assert error.code == "platform.overlay_unreadable"
    assert "mine.yaml" in error.message


def test_one_broken_overlay_does_not_hide_the_other_platforms(own):
    shelf = own(broken="[", lab="extends: generic-ssh\n")
    assert shelf.load("lab").id == "lab"
    assert "broken" in shelf.names()


# ---------------------------------------------------------------- the page about it


def _examples() -> dict[str, str]:
    found = re.findall(r"```yaml\n# (\S+)\.yaml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    return dict(found)


def test_the_examples_of_the_page_load(own):
    examples = _examples()
    assert sorted(examples) == ["autodl", "lambda", "our-lab"]
    shelf = own(**examples)
    lab, autodl = shelf.load("our-lab"), shelf.load("autodl")
    scratch = lab.tier("scratch")
    assert scratch is not None
    assert scratch.rates[0].hourly(Decimal(0)) == 0
    verb = lab.verb()
    assert verb is not None
    assert verb.name == "hand-back"
    assert verb.keeps == ("group share",)
    assert autodl.state_tier.size != Shelf().load("autodl").state_tier.size
    outcomes = {rule.name: rule.outcome for rule in shelf.load("lambda").environment.rules}
    assert (outcomes["apt full-upgrade"], outcomes["no docker"]) == ("warn", "refuse")
    assert len(outcomes) == len(Shelf().load("lambda").environment.rules) + 1
    assert [(sign.kind, sign.value, sign.presence) for sign in lab.signs] == [
        ("host", "*.gpu.example.org", "sometimes"),
        ("mount", "/scratch", "always"),
    ]

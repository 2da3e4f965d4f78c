"""Profiles: a fact without its parts does not load, whatever part is missing, wrong or contradicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import HomeError, UserError
from leasehold.facts import profiles
from leasehold.facts.fact_yaml import read_facts
from leasehold.facts.profile_parse import parse_profile
from leasehold.facts.profiles import Shelf
from leasehold.model.platform.profile import Profile
from tests.support.profile_data import changed, parts, shipped

NAMES = profiles.names()
DATA = shipped()
WHOLE = [name for name in NAMES if "extends" not in DATA[name]]

REQUIRED = {
    (): "id title landlord traits sources detach tiers verbs clocks spot environment network",
    ("traits",): (
        "kind meter_stop_verb meter_stop_irreversible detach_primitive spot_available spot_grace shared_fs inode_cap "
        "free_egress china_mirror_needed host_driver_cuda_max local_nvme"
    ),
    ("sources", "*"): "url verified confidence",
    ("tiers", "*"): "name survives source",
    ("tiers", "*", "survives"): "stop destroy balance_zero",
    ("tiers", "*", "rates", "*"): "amount currency per when source",
    ("verbs", "*"): "name kind ends stops_compute stops_all reversible by steps source",
    ("clocks", "*"): "name starts after effect source",
    ("signs", "*"): "name source",
    ("spot",): "available source",
    ("environment",): "contract",
}


def is_required(path: tuple[Any, ...]) -> bool:
    place = tuple("*" if at and at[-1] in ("sources", "tiers", "verbs", "clocks", "rates", "signs") else key
                  for key, at in ((key, path[:index]) for index, key in enumerate(path[:-1])))  # fmt: skip
    return path[-1] in REQUIRED.get(place, "").split()


def refusal(data: Any) -> str:
    with pytest.raises(ValueError) as caught:
        parse_profile(data, ("test",))
    return str(caught.value)


# ---------------------------------------------------------------- what ships


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_that_ships_loads(name):
    profile = profiles.load(name)
    assert profile.id == name
    assert "state" in profile.state_tier.roles
    assert profile.origin[-1] == f"{name}.yaml"
    for verb in profile.verbs:
        assert profile.verb(verb.name) is verb
        assert not verb.native or profile.verb(verb.native) is verb
        assert verb.source.url and verb.source.verified


@pytest.mark.parametrize("name", NAMES)
def test_the_verb_that_stops_the_meter_is_the_one_that_comes_unnamed(name):
    profile = profiles.load(name)
    wanted = profile.traits.meter_stop_verb
    assert profile.verb() is (profile.verbs[0] if wanted == "n/a" else profile.verb(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_steps_name_only_what_can_be_filled_in(name):
    for verb in profiles.load(name).verbs:
        for step in verb.steps:
            step.format(box="b", lease="l", root="r")


@pytest.mark.parametrize("name", NAMES)
def test_a_verb_that_ends_the_box_keeps_only_what_its_tiers_promise(name):
    profile = profiles.load(name)
    for verb in profile.verbs:
        for tier in profile.tiers:
            if verb.ends != "nothing" and tier.survives(verb.ends) != "yes":
                assert tier.name in verb.deletes


def test_runpod_loses_all_at_zero_balance_and_its_stopped_disk_doubles():
    profile = profiles.load("runpod")
    assert profile.state_tier.survives_balance_zero == "no"
    running, stopped = (rate for rate in profile.state_tier.rates)
    assert stopped.amount == 2 * running.amount


def test_a_pod_with_a_network_volume_keeps_its_workspace():
    profile = profiles.load("runpod-volume")
    terminate = profile.verb("terminate")
    assert terminate is not None
    assert profile.state_tier.name in terminate.keeps


def test_autodl_pro_has_no_data_disk_and_is_powered_off_by_a_person():
    profile = profiles.load("autodl-pro")
    assert profile.tier("data disk") is None
    assert profile.state_tier.name == "system disk"
    parking = profile.parking
    assert parking is not None
    assert (parking.by, parking.command) == ("person", ())


def test_only_autodl_powers_itself_off():
    by_box = [name for name in NAMES for verb in profiles.load(name).verbs if verb.by == "box"]
    assert by_box == ["autodl"]


def test_an_unknown_platform_is_named_with_the_known_ones():
    with pytest.raises(UserError) as caught:
        profiles.load("nowhere")
    assert caught.value.code == "platform.unknown"
    assert "generic-ssh" in caught.value.hint


def test_a_misspelt_platform_is_guessed():
    with pytest.raises(UserError) as caught:
        profiles.load("runpood")
    assert "did you mean runpod" in caught.value.hint


@pytest.mark.parametrize("name", ["../profiles/local", "local.yaml", "", "LOCAL", "local\0"])
def test_a_name_is_no_path(name):
    with pytest.raises(UserError):
        profiles.load(name)


# ---------------------------------------------------------------- a fact that lacks a part, or has a wrong one


@pytest.mark.parametrize("name", WHOLE)
def test_a_profile_that_lacks_any_required_part_is_refused_by_its_key(name):
    tried = 0
    for path in parts(DATA[name]):
        if is_required(path):
            tried += 1
            assert str(path[-1]) in refusal(changed(DATA[name], path)), path
    assert tried > 40


@pytest.mark.parametrize("name", WHOLE)
def test_every_source_that_a_fact_names_must_exist(name):
    for source in DATA[name]["sources"]:
        assert "source" in refusal(changed(DATA[name], ("sources", source)))


@pytest.mark.parametrize("name", WHOLE)
def test_a_key_that_means_nothing_is_refused(name):
    mappings = [(), *(path for path in parts(DATA[name]) if isinstance(_at(DATA[name], path), dict))]
    open_ones = {("network",), ("environment", "variables")}
    for path in mappings:
        if path not in open_ones:
            assert "survies" in refusal(changed(DATA[name], (*path, "survies"), "x")), path


@pytest.mark.parametrize("wrong", [7, {"a": 1}, [1]], ids=["number", "mapping", "list of numbers"])
def test_a_part_of_the_wrong_kind_is_refused(wrong):
    for path in parts(DATA["rehearsal"]):
        assert refusal(changed(DATA["rehearsal"], path, wrong)), path


@pytest.mark.parametrize(
    "name, path, wrong, said",
    [
        ("rehearsal", ("detach",), "setsid", "detach"),
        ("rehearsal", ("detach",), [], "detach"),
        ("rehearsal", ("detach",), ["tmux"], "detach_primitive"),
        ("rehearsal", ("clocks",), "none", "clocks"),
        ("rehearsal", ("tiers",), [], "role state"),
        ("rehearsal", ("tiers", 0, "roles"), ["scratch"], "role state"),
        ("rehearsal", ("tiers", 0, "roles"), "state", "roles"),
        ("rehearsal", ("tiers", 0, "roles"), ["state", "fast"], "roles"),
        ("rehearsal", ("tiers", 0, "roles"), ["state", "durable"], "durable"),
        ("rehearsal", ("tiers", 0, "survives", "stop"), True, "survives.stop"),
        ("rehearsal", ("tiers", 0, "survives", "stop"), "maybe", "survives.stop"),
        ("rehearsal", ("tiers", 0, "survives", "destroy"), "", "survives.destroy"),
        ("rehearsal", ("tiers", 0, "survives", "balance_zero"), "No", "balance_zero"),
        ("rehearsal", ("tiers", 0, "path"), "relative/folder", "path"),
        ("rehearsal", ("tiers", 0, "shared"), True, "credentials"),
        ("rehearsal", ("verbs",), [], "verb"),
        ("rehearsal", ("verbs", 0, "kind"), "explode", "kind"),
        ("rehearsal", ("verbs", 0, "kind"), "park", "park"),
        ("rehearsal", ("verbs", 0, "ends"), "nothing", "release"),
        ("rehearsal", ("verbs", 0, "reversible"), "no", "reversible"),
        ("rehearsal", ("verbs", 0, "reversible"), "false", "reversible"),
        ("rehearsal", ("verbs", 0, "reversible"), 0, "reversible"),
        ("rehearsal", ("verbs", 0, "reversible"), True, "irreversible"),
        ("rehearsal", ("verbs", 0, "steps"), "stop it", "steps"),
        ("rehearsal", ("verbs", 0, "steps"), [], "steps"),
        ("rehearsal", ("verbs", 0, "steps"), ["press {button}"], "steps"),
        ("rehearsal", ("verbs", 0, "stops_all"), True, "stops_all"),
        ("rehearsal", ("verbs", 0, "by"), "box", "command"),
        ("rehearsal", ("verbs", 0, "command"), ["shutdown"], "command"),
        ("rehearsal", ("verbs", 0, "deletes_also"), ["another disk"], "deletes_also"),
        ("rehearsal", ("verbs", 0, "deletes"), ["box disk"], "deletes"),
        ("rehearsal", ("traits", "meter_stop_verb"), "explode", "meter_stop_verb"),
        ("rehearsal", ("traits", "meter_stop_irreversible"), "no", "meter_stop_irreversible"),
        ("rehearsal", ("traits", "shared_fs"), "perhaps", "shared_fs"),
        ("rehearsal", ("traits", "kind"), "spaceship", "kind"),
        ("rehearsal", ("spot", "available"), "yes", "spot_available"),
        ("rehearsal", ("sources", "own", "confidence"), "hearsay", "confidence"),
        ("rehearsal", ("sources", "own", "verified"), "last year", "verified"),
        ("rehearsal", ("sources", "own", "verified"), "2026-13", "verified"),
        ("rehearsal", ("sources", "own", "url"), "a friend", "url"),
        ("rehearsal", ("sources", "own", "author"), "me", "author"),
        ("autodl", ("verbs", 0, "command"), ["rm", "-rf", "/"], "command"),
        ("autodl", ("clocks", 0, "deletes"), ["another disk"], "deletes"),
        ("autodl", ("clocks", 0, "starts"), "whenever", "starts"),
        ("autodl", ("tiers", 0, "rates", 0, "amount"), -1, "amount"),
        ("autodl", ("tiers", 0, "rates", 0, "amount"), "free", "amount"),
        ("autodl", ("tiers", 0, "rates", 0, "currency"), "yuan", "currency"),
        ("autodl", ("tiers", 0, "rates", 0, "per"), "fortnight", "per"),
        ("autodl", ("tiers", 0, "rates", 0, "when"), "sometimes", "when"),
        ("autodl", ("tiers", 1, "name"), "data disk", "once"),
        ("autodl", ("tiers", 2, "survives", "destroy"), "no", "durable"),
        ("autodl", ("tiers", 2, "survives", "stop"), "no", "survive"),
        ("autodl", ("environment", "credentials"), "file storage", "credentials"),
        ("autodl", ("environment", "credentials"), "no such tier", "credentials"),
        ("autodl", ("environment", "variables", "HF_HOME"), "{fast}/hf", "HF_HOME"),
        ("autodl", ("environment", "variables", "HF_HOME"), "{state", "HF_HOME"),
        ("autodl", ("boot",), "soon", "boot"),
        ("autodl", ("billing_source",), "nowhere", "billing_source"),
        ("lambda", ("environment", "variables", "HF_HOME"), "{durable}/hf", "HF_HOME"),
    ],
    ids=str,
)
def test_a_fact_that_contradicts_or_means_something_else_is_refused(name, path, wrong, said):
    """`reversible: "no"` is a text, and a text is true: an irreversible verb would pass for a reversible one."""
    assert said in refusal(changed(DATA[name], path, wrong))


def test_billing_without_a_source_is_refused():
    assert "billing_source" in refusal(changed(DATA["autodl"], ("billing_source",)))


@pytest.mark.parametrize(
    "key",
    [
        "hf_" + "A1b2" * 8,
        "sk-" + "x9" * 12,
        "AKIA" + "ABCDEFGH12345678",
        "ghp_" + "a1" * 18,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "0123456789abcdef" * 4,
        "export WANDB_API_KEY=abcdefgh1234",
    ],
    ids=["hugging face", "openai", "aws", "github", "private key", "hex", "assignment"],
)
@pytest.mark.parametrize(
    "path",
    [("title",), ("verbs", 0, "steps"), ("environment", "contract"), ("environment", "variables"), ("network", "ssh")],
    ids=str,
)
def test_a_key_shaped_value_is_refused_wherever_it_stands(path, key):
    value = {("verbs", 0, "steps"): [key], ("environment", "variables"): {"TOKEN": key}}.get(path, key)
    said = refusal(changed(DATA["autodl"], path, value))
    assert "key or token" in said
    assert key not in said


# ---------------------------------------------------------------- files


NO_PROFILES = {
    "empty": "",
    "cut": "[",
    "two colons": "a: b: c",
    "a list": "- a",
    "a number": "7",
    "a tab": "\t",
    "a key twice": "id: rehearsal\nid: rehearsal",
    "a python object": "id: !!python/object/apply:os.getcwd []",
    "too deep": "[" * 2000,
    "a billion laughs": "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)),
}


@pytest.mark.parametrize("text", list(NO_PROFILES.values()), ids=list(NO_PROFILES))
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text):
    (tmp_path / "rehearsal.yaml").write_text(text, "utf-8")
    with pytest.raises(HomeError) as caught:
        Shelf(folder=tmp_path).load("rehearsal")
    assert caught.value.code == "platform.damaged"
    assert "rehearsal.yaml" in caught.value.message


def test_a_folder_of_profiles_is_listed_and_loaded(tmp_path: Path):
    write(tmp_path / "moon.yaml", changed(DATA["rehearsal"], ("id",), "moon"))
    (tmp_path / "notes.txt").write_text("not a profile")
    assert Shelf(folder=tmp_path).names() == ["moon"]
    assert Shelf(folder=tmp_path).load("moon").id == "moon"


def test_a_file_may_not_call_itself_something_else(tmp_path: Path):
    write(tmp_path / "moon.yaml", DATA["rehearsal"])
    with pytest.raises(HomeError, match="rehearsal"):
        Shelf(folder=tmp_path).load("moon")


# ---------------------------------------------------------------- properties


ANSWERS = st.sampled_from(["yes", "no", "unknown"])


@given(
    survival=st.lists(st.tuples(ANSWERS, ANSWERS, ANSWERS), min_size=1, max_size=6),
    also=st.sets(st.integers(0, 5)),
    ends=st.sampled_from(["stop", "destroy", "nothing"]),
)
def test_what_a_verb_deletes_and_keeps_always_divides_the_tiers(survival, also, ends):
    survival = [(stop if destroy != "yes" else "yes", destroy, zero) for stop, destroy, zero in survival]
    tiers = [
        {
            "name": f"tier {index}",
            "path": f"/t{index}",
            "roles": ["state"] if index == 0 else [],
            "survives": {"stop": stop, "destroy": destroy, "balance_zero": zero},
            "source": "own",
        }
        for index, (stop, destroy, zero) in enumerate(survival)
    ]
    named = [f"tier {index}" for index in sorted(also) if index < len(tiers)]
    profile = _with(tiers, ends, named)
    verb = profile.verbs[-1]
    assert sorted((*verb.deletes, *verb.keeps)) == sorted(tier.name for tier in profile.tiers)
    for tier in profile.tiers:
        sure = tier.survives(ends) == "yes" and tier.name not in named
        assert (tier.name in verb.keeps) == sure


WORDS = ["yes", "no", "on", "off", "y", "n", "Yes", "NO", "2026-10", "2026-10-01", "0o17", "017", "1e3", "12:30:00"]


@pytest.mark.parametrize("word", WORDS)
def test_words_months_and_clock_times_stay_words(word):
    assert read_facts(f"key: {word}\n") == {"key": word}
    assert read_facts(f"- {{key: {word}}}\n") == [{"key": word}]


@given(st.integers(2000, 2099), st.integers(1, 12))
def test_a_month_never_becomes_a_date(year, month):
    text = f"{year:04}-{month:02}"
    assert read_facts(f"verified: {text}") == {"verified": text}


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=5))
def test_any_text_that_is_quoted_comes_back(data):
    assert (read_facts(yaml.safe_dump(data, default_style='"', allow_unicode=True)) or {}) == data


@pytest.mark.parametrize(
    "text, why",
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: duplicate key: a"),
        ("[a]: 1\n", "line 1: a key must be a plain word"),
        ("a: {", "line 1: not valid YAML"),
        ("- " * 14, "nested deeper than 12 levels"),
    ],
)
def test_text_that_holds_no_plain_facts_says_where(text, why):
    with pytest.raises(ValueError, match=why):
        read_facts(text)


# ---------------------------------------------------------------- helpers


def write(file: Path, data: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(data, default_style=None, allow_unicode=True), "utf-8")


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(tiers: list[dict[str, Any]], ends: str, also: list[str]) -> Profile:
    verb = {
        **DATA["rehearsal"]["verbs"][0], "name": "try", "kind": "end", "ends": ends, "deletes_also": also,
    }  # fmt: skip
    data = {**DATA["rehearsal"], "tiers": tiers}
    return parse_profile({**data, "verbs": [*data["verbs"], verb]}, ("test",))

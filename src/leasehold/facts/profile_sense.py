"""Refuse contradictory facts of one profile before anything rests on them."""

from __future__ import annotations

from leasehold.model.platform.profile import NO, YES, Profile, Tier, Verb

_SHELL_VERB = ("shutdown", "poweroff", "halt", "systemctl")


def refuse_contradictions(profile: Profile) -> None:
    """Raise ValueError with the first contradiction."""
    if not profile.verbs or not profile.detach:
        raise ValueError("a profile needs at least one verb and one way to detach")
    _one_state_tier(profile)
    _traits_agree(profile)
    for verb in profile.verbs:
        _verb_is_whole(profile, verb)
    known = {tier.name for tier in profile.tiers}
    for clock in profile.clocks:
        if set(clock.deletes) - known:
            raise ValueError(f"clocks[{clock.name}].deletes names no tier of this profile: {sorted(clock.deletes)}")
    _credentials_are_private(profile)
    _variables_have_folders(profile)


def _one_state_tier(profile: Profile) -> None:
    for role in ("state", "durable"):
        holders = [tier.name for tier in profile.tiers if role in tier.roles]
        if role == "state" and len(holders) != 1:
            raise ValueError(f"tiers: exactly one must have the role state, not {holders}")
        if len(holders) > 1:
            raise ValueError(f"tiers: at most one has the role {role}, not {holders}")
    durable = profile.durable_tier
    if durable is not None and durable.survives_destroy == NO:
        raise ValueError(f"tiers[{durable.name}]: a durable tier outlives destroy, and this one does not")
    for tier in profile.tiers:
        _survival_is_ordered(tier)


def _survival_is_ordered(tier: Tier) -> None:
    """Check that what outlives the end of the box also outlives its sleep."""
    if tier.survives_destroy == YES and tier.survives_stop == NO:
        raise ValueError(f"tiers[{tier.name}]: it cannot survive destroy and not stop")


def _traits_agree(profile: Profile) -> None:
    traits = profile.traits
    if traits.detach_primitive != profile.detach[0]:
        raise ValueError(
            f"traits.detach_primitive is {traits.detach_primitive}, detach begins with {profile.detach[0]}"
        )
    if traits.spot_available != profile.spot.available:
        raise ValueError(f"traits.spot_available is {traits.spot_available}, spot.available {profile.spot.available}")
    if traits.meter_stop_verb == "n/a":
        return
    verb = next((verb for verb in profile.verbs if verb.name == traits.meter_stop_verb), None)
    if verb is None:
        raise ValueError(f"traits.meter_stop_verb {traits.meter_stop_verb!r} is not a verb of this profile")
    irreversible = {YES: True, NO: False}.get(traits.meter_stop_irreversible)
    if irreversible is None or irreversible == verb.reversible:
        raise ValueError(f"traits.meter_stop_irreversible contradicts the verb {verb.name}")


def _verb_is_whole(profile: Profile, verb: Verb) -> None:
    where = f"verbs[{verb.name}]"
    if verb.kind == "park" and (not verb.reversible or verb.ends != "stop"):
        raise ValueError(f"{where}: a park is reversible and ends in stop")
    if verb.kind == "release" and (verb.reversible or verb.ends != "destroy"):
        raise ValueError(f"{where}: a release is irreversible and ends in destroy")
    if verb.reversible and verb.kind not in ("park", "cheaper", "leave") and verb.deletes:
        raise ValueError(f"{where}: it deletes {', '.join(verb.deletes)} and yet claims to be reversible")
    if not verb.steps:
        raise ValueError(f"{where}.steps: a person must be told what to do")
    if (verb.by == "box") != bool(verb.command):
        raise ValueError(f"{where}: a verb that the box carries out has a command, and no other has")
    if verb.by == "api" and profile.landlord in ("person", "simulated"):
        raise ValueError(f"{where}: by: api needs a landlord that has one, and this platform's is {profile.landlord}")
    if verb.command and verb.command[0].rpartition("/")[2] not in _SHELL_VERB:
        raise ValueError(f"{where}.command must be one of {', '.join(_SHELL_VERB)}, not {verb.command[0]!r}")
    for step in verb.steps:
        try:
            step.format(box="", lease="", root="")
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"{where}.steps: only {{box}}, {{lease}} and {{root}} are filled in: {step!r}") from None


def _credentials_are_private(profile: Profile) -> None:
    named = profile.environment.credentials
    tier = profile.tier(named) if named else profile.state_tier
    if tier is None:
        raise ValueError(f"environment.credentials names no tier: {profile.environment.credentials!r}")
    if tier.shared:
        raise ValueError(f"environment.credentials: {tier.name} is shared with other boxes; secrets never lie there")


def _variables_have_folders(profile: Profile) -> None:
    """Check variables on {state}, {durable} or {scratch}: a tier must have that role and a path."""
    folders = {role: tier.path for tier in profile.tiers for role in tier.roles if tier.path or role == "state"}
    for name, value in profile.environment.variables.items():
        try:
            value.format(**folders)
        except KeyError as missing:
            known = ", ".join("{" + role + "}" for role in folders)
            raise ValueError(
                f"environment.variables.{name}: no tier with a path has the role {missing}; known: {known}"
            ) from None
        except (IndexError, ValueError, AttributeError) as error:
            raise ValueError(f"environment.variables.{name}: {value!r} cannot be filled in: {error}") from None

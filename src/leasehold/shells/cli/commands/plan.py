"""The plan, fetch, platforms and k8s commands: call the api, render its answer."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.api import opening, orders, planning, running
from leasehold.errors import UserError
from leasehold.model.lease.box import K8S
from leasehold.model.platform.platform_signs import say_sign
from leasehold.model.platform.platform_wording import first_lines, say_clock, say_source, say_survival, say_verb
from leasehold.model.run.verdict import Outcome
from leasehold.shells.cli import output
from leasehold.shells.cli.commands.project import show_verdict
from leasehold.shells.cli.screens.plan_table import draw_sheet, draw_sheets

if TYPE_CHECKING:
    from leasehold.model.platform.profile import NeverRule, Profile

_EXIT_REFUSED = 3
_PRESENCE = {"always": " on every box", "sometimes": "", "never": " on none of its boxes"}
_DETAILED = 2  # up to this many candidates are shown in full


def plan(args: Namespace) -> int:
    """lease plan"""
    at = _moment(args.at)
    wishes = planning.plan_wishes(
        price=args.price, balance=args.balance, verb=args.verb, spot=args.spot, bandwidth=args.bandwidth,
        gap=args.interrupted_every, cards=args.cards, root=args.root,
    )  # fmt: skip
    made = planning.plan(opening.open_home(), Path(args.job), tuple(args.on), wishes, at)
    refused = [verdict for _, verdict, _ in made if verdict.outcome is Outcome.REFUSED]
    if args.json:
        sheets = [{**sheet.as_dict(at), "gate": verdict.as_dict(), "warnings": said} for sheet, verdict, said in made]
        for one in sheets:
            if str(one["candidate"]).startswith(K8S):
                one["manifest"] = _manifest(args, str(one["candidate"]))
        output.as_json({"plans": sheets})
    else:
        if len(made) > 1:
            draw_sheets(made, at)
        if args.full or len(made) <= _DETAILED:
            for sheet, verdict, said in made:
                draw_sheet(sheet, verdict, said, at)
                if sheet.candidate.startswith(K8S):
                    _draw_manifest(args, sheet.candidate)
        else:
            output.say("every detail: --full, or one candidate with --on")
    return _EXIT_REFUSED if made and len(refused) == len(made) else 0


def _manifest(args: Namespace, on: str) -> list[dict[str, Any]]:
    return planning.manifest(opening.open_home(), Path(args.job), on)


def _draw_manifest(args: Namespace, on: str) -> None:
    output.data("\n" + output.as_yaml(_manifest(args, on)))


def manifest(args: Namespace) -> int:
    """lease k8s manifest"""
    made = planning.manifest(opening.open_home(), Path(args.job), args.on)
    if args.json:
        output.as_json({"objects": made})
    elif args.to:
        Path(args.to).write_text(output.as_yaml(made), "utf-8")
        output.say(f"written: {args.to}. `lease run` creates the same objects itself and finds existing ones")
        if planning.manifest(opening.open_home(), Path(args.job), args.on) != made:
            output.say(f"{args.to} is now part of the code, so the next run has another name than these objects:")
            output.say("  write it outside the project, or name it in .leaseignore")
    else:
        output.data(output.as_yaml(made).rstrip())
    return 0


def rights(args: Namespace) -> int:
    """lease k8s rights"""
    verdict, role = planning.rights(opening.open_home(), Path(args.job), args.on)
    if args.json:
        output.as_json({"verdict": verdict.as_dict(), "role": role})
    else:
        show_verdict(verdict)
        output.data(output.as_yaml([role]).rstrip())
    return _EXIT_REFUSED if verdict.outcome is Outcome.REFUSED else 0


def fetch(args: Namespace) -> int:
    """lease run fetch"""
    order = orders.RunOrder(Path(args.job), args.on, args.root, args.platform, price=args.price, detach=args.detach)
    outcome = running.fetch(opening.open_home(), order, output.Screen(args.json).report)
    if args.json:
        output.as_json({"run": outcome.run, "lease": outcome.lease, "state": outcome.state})
    elif outcome.state == "finished":
        output.say(f"fetched and checked; a run on {args.on} finds it in $LEASE_DATA. Next: lease run --on {args.on}")
    else:
        output.say(f"detached; the box continues to download. Next: lease watch {outcome.run}")
    return 0


def platforms(args: Namespace) -> int:
    """lease platforms"""
    home = opening.open_home()
    if args.action == "check":
        return _check(home, args)
    if args.action == "show":
        if len(args.name) != 1:
            raise UserError("platform.which", "show needs one platform", hint="lease platforms lists them")
        profile = planning.platform(home, args.name[0])
        output.as_json(_spelled(profile)) if args.json else _show(profile, time.time())
        return 0
    if args.name:
        raise UserError("platform.which", f"did you mean: lease platforms show {args.name[0]}?")
    found = planning.platforms(home)
    if args.json:
        output.as_json({"platforms": [_spelled(profile) for profile in found]})
        return 0
    output.table(
        [_row(profile) for profile in found],
        ["PLATFORM", "RUNS", "STOPS THE METER", "ENDS ALL", "DELETES", "CONFIRMED"],
    )
    output.say("more: lease platforms show NAME;  your own: docs/platforms-own.md")
    return 0


def _check(home: Any, args: Namespace) -> int:
    """List facts to check again; exit 1 when there are any."""
    found = planning.doubtful_facts(home, args.name)
    if args.json:
        output.as_json({"doubtful": [_doubt(*item) for item in found]})
    elif found:
        rows = [[name, what, source.verified, why] for name, what, source, why in found]
        output.table(rows, ["PLATFORM", "FACT", "CONFIRMED", "WHY LOOK AGAIN"])
        output.say("before a verb that deletes rests on one of these, lease down asks you to look at the console")
    else:
        output.say("every fact was confirmed within six months")
    return 1 if found else 0


def _doubt(name: str, what: str, source: Any, why: str) -> dict[str, str]:
    return {"platform": name, "fact": what, "why": why, **asdict(source)}


def _row(profile: Profile) -> list[str]:
    verb = profile.verb()
    oldest = min(source.verified for _, source in profile.sources())
    runs = "yes" if profile.runnable else "plans only"
    if verb is None:
        return [profile.id, runs, "-", "-", "-", oldest]
    name = f"{verb.name} {verb.native}".strip()
    return [profile.id, runs, name, verb.stops_all, ", ".join(verb.deletes) or "nothing", oldest]


def _spelled(profile: Profile) -> dict[str, Any]:
    return asdict(profile)


def _show(profile: Profile, now_unix: float) -> None:
    for line in first_lines(profile):
        output.data(line)
    runs = f"runs by {profile.engine}" if profile.runnable else f"plans only: it has no {profile.engine} engine yet"
    output.data(f"\n{profile.id}: {profile.title}  ({profile.traits.kind}; {runs})")
    output.data("\nwhat survives what")
    rows = [say_survival(tier) for tier in profile.tiers]
    output.table(rows, ["TIER", "WHERE", "ROLES", "STOP", "DESTROY", "BALANCE 0"])
    for tier in profile.tiers:
        facts = [tier.speed, tier.size, tier.inode_cap and f"inodes: {tier.inode_cap}", tier.scope, tier.note]
        facts += [f"{rate.amount:f} {rate.currency}/{rate.per} {rate.when}" for rate in tier.rates]
        output.data(f"  {tier.name}: {'; '.join(fact for fact in facts if fact) or 'nothing more is known'}")
    output.data("\nverbs")
    for verb in profile.verbs:
        output.data(f"  {say_verb(verb)}")
        for step in verb.steps:
            output.data(f"      - {step.format(box='the box', lease='LEASE', root='our folder')}")
        if verb.note:
            output.data(f"      {verb.note}")
    output.data("\nclocks")
    for clock in profile.clocks:
        output.data(f"  {say_clock(clock)}")
    if not profile.clocks:
        output.data("  none known")
    _show_rest(profile, now_unix)


def _show_rest(profile: Profile, now_unix: float) -> None:
    spot, environment = profile.spot, profile.environment
    grace = "" if spot.grace_s is None else f", {spot.grace_s:.0f} s grace"
    output.data(f"\nspot: {spot.available}; {spot.model or 'nothing said'}{grace}")
    output.data(f"environment: {environment.contract}")
    for name, value in {"interpreter": environment.interpreter, "hook": environment.hook}.items():
        if value:
            output.data(f"  {name}: {value}")
    for name, value in environment.variables.items():
        output.data(f"  {name}={value}")
    _show_never(environment.rules, environment.never)
    output.data("network")
    for name, value in profile.network.items():
        output.data(f"  {name}: {value}")
    for title, lines in (("conveniences", profile.conveniences), ("notes", profile.notes)):
        for line in (f"\n{title}", *(f"  {line}" for line in lines)) if lines else ():
            output.data(line)
    if profile.signs:
        output.data("\nhow its boxes are recognised")
    for sign in profile.signs:
        output.data(f"  {sign.name}: {say_sign(sign)}{_PRESENCE[sign.presence]}")
    output.data("\nsources")
    for what, source in profile.sources():
        output.data(f"  {what}: {say_source(source, now_unix)}")
    output.data(f"read from: {', '.join(profile.origin)}")
    if profile.relaxed:
        output.data("\nnot used: a project's file makes facts more cautious, never less (docs/platforms-own.md)")
    for fact in profile.relaxed:
        output.data(f"  {fact}")


def _show_never(rules: tuple[NeverRule, ...], texts: tuple[str, ...]) -> None:
    """Show what is forbidden there: rules that a job's commands are checked against, and rules for a person to heed."""
    if not rules and not texts:
        return
    done = {"refuse": "refused in a job's commands", "warn": "warned of in a job's commands"}
    output.data("never")
    for rule in rules:
        output.data(f"  {rule.name} ({done[rule.outcome]}): {rule.why}")
    for text in texts:
        output.data(f"  {text}")


def _moment(text: str) -> float:
    if not text:
        return time.time()
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise UserError("plan.bad_date", f"{text!r} is not a date", hint="--from 2026-11-20 or 2026-11-20T08:00Z")

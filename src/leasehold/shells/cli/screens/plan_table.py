"""Plan sheets for people: a table of candidates side by side, and each one whole."""

from __future__ import annotations

from leasehold.model.platform.placing import copy_tier
from leasehold.model.platform.plan_sheet import PlanSheet, Ticking
from leasehold.model.platform.platform_wording import say_deleted, say_ends, say_when
from leasehold.model.run.verdict import Outcome, Verdict
from leasehold.model.values.money import Money
from leasehold.model.values.units import ago, say_bytes, utc_minute
from leasehold.shells.cli import output

_MARKS = {Outcome.PASSED: "ok", Outcome.REFUSED: "NO", Outcome.UNKNOWN: "?"}
_COLOURS = {"NO": "red", "ok": "green", "?": "yellow"}


def draw_sheets(made: list[tuple[PlanSheet, Verdict, list[str]]], at_unix: float) -> None:
    """Draw the candidates side by side."""
    head = ["", "CANDIDATE", "ENDS WITH", "DELETES", "CHECKPOINTS ON", "OUTLIVES", "COST", "NEXT CLOCK"]
    rows = []
    for sheet, verdict, _ in made:
        verb = sheet.verb
        rows.append([
            _MARKS[verdict.outcome],
            sheet.candidate,
            verb.name if verb else "-",
            say_deleted(sheet.profile, verb) or "nothing" if verb else "-",
            sheet.state.name,
            "yes" if sheet.survives_verb else "home first",
            str(sheet.forecast.total) if sheet.forecast.total is not None else "?",
            _next(sheet, at_unix),
        ])  # fmt: skip
    output.table(rows, head, {"": _COLOURS})
    for why, names in _unknown_costs([sheet for sheet, _, _ in made]).items():
        output.say(f"cost unknown on {', '.join(names)}: {why}")
    for sheet, verdict, _ in made:
        for finding in verdict.against():
            output.say(f"{_MARKS[finding.outcome]} {sheet.candidate}: {finding.what}\n     -> {finding.hint}")


def _unknown_costs(sheets: list[PlanSheet]) -> dict[str, list[str]]:
    """Group the candidates of unknown cost by the facts that must be stated to compute it."""
    found: dict[str, list[str]] = {}
    for sheet in sheets:
        forecast = sheet.forecast
        if forecast.total is not None:
            continue
        why = (
            [] if forecast.hour is not None else ["no price was given (--price 1.98USD/h, or lease box add … --price)"]
        )
        why += [] if forecast.run_s is not None else ["the job does not say how long it takes (expect: 6h)"]
        found.setdefault(" and ".join(why) or "a part of it is not known", []).append(sheet.candidate)
    return found


def draw_sheet(sheet: PlanSheet, verdict: Verdict, warnings: list[str], at_unix: float) -> None:
    """Draw one candidate in full."""
    title = sheet.candidate if sheet.candidate == sheet.profile.id else f"{sheet.candidate} ({sheet.profile.id})"
    output.data(output.paint_data(f"\n{title}: {sheet.profile.title}", "bold"))
    for name, value in _facts(sheet, at_unix):
        output.data(f"  {name:<13} {value}")
    if sheet.clocks:
        output.data("  clocks")
        for tick in sheet.clocks:
            output.data(f"    {_dated(tick, at_unix)}  {tick.clock.name}: {tick.clock.effect}")
    for finding in verdict.findings:
        output.data(f"  {_MARKS[finding.outcome]:<3}{finding.what}")
        if finding.hint:
            output.data(f"     -> {finding.hint}")
    for line in warnings:
        output.data(output.paint_data(f"  !  {line}", "yellow"))
    output.data(f"  plan {sheet.sha256[:12]}")


def _facts(sheet: PlanSheet, at_unix: float) -> list[tuple[str, str]]:
    verb, forecast = sheet.verb, sheet.forecast
    facts = [("folder", f"{sheet.root}  ({sheet.state.name})")]
    if sheet.checkpoint:
        facts.append(("checkpoints", sheet.checkpoint))
    facts += _copied(sheet)
    if sheet.hf_home:
        facts.append(("HF_HOME", sheet.hf_home))
    facts.append(("detached by", ", ".join(sheet.profile.detach)))
    if verb is not None:
        native = f" ({verb.native})" if verb.native else ""
        undo = "can be undone" if verb.reversible else "cannot be undone"
        gone = say_deleted(sheet.profile, verb) or "nothing"
        facts.append(("ends with", f"{verb.name}{native}, {undo}; deletes {gone}; {say_ends(verb)}"))
    facts.append(("disk needed", f"{say_bytes(sheet.need_bytes)}, {sheet.need_inodes:,} inodes"))
    facts.append(("checkpoint", _cadence(sheet)))
    facts += _costs(sheet)
    if sheet.balance_lasts_s is not None:
        day = utc_minute(at_unix + sheet.balance_lasts_s)
        facts.append(("balance", f"{sheet.wishes.balance} lasts {ago(sheet.balance_lasts_s)}: until {day}"))
    elif sheet.wishes.balance and forecast.hour:
        facts.append(("balance", f"{sheet.wishes.balance} and {forecast.hour} an hour are in different currencies"))
    return facts


def _costs(sheet: PlanSheet) -> list[tuple[str, str]]:
    forecast = sheet.forecast
    if forecast.hour is None:
        said = "unknown: no price was given (--price 1.98USD/h)"
        return [("cost", said), *_parked(forecast.parked_day)]
    if not forecast.hour:
        return [("cost", "nothing bills here")]
    parts = [f"boot {ago(forecast.boot_s)}: {_said(forecast.boot)}"]
    if forecast.run_s is None:
        parts.append("run: unknown (the job has no `expect`)")
    else:
        parts.append(f"{_rounds(sheet)}{ago(forecast.run_s)}: {_said(forecast.compute)}")
    rate = f"{sheet.wishes.bandwidth_bytes_s * 8 / 1e6:.0f} Mbit/s"
    size = (
        f"pull at {rate}, {ago(forecast.pull_s)}" if forecast.pull_s is not None else "pull: checkpoint size not given"
    )
    parts.append(f"{size}: {_said(forecast.pull)}" if forecast.pull_s is not None else size)
    total = f"{forecast.total} in all" if forecast.total is not None else f"{forecast.hour} an hour"
    return [("cost", f"{total}  ({'; '.join(parts)})"), *_parked(forecast.parked_day)]


def _rounds(sheet: PlanSheet) -> str:
    if sheet.cells == 1:
        return "run "
    how = "one after the other" if sheet.at_once == 1 else f"{sheet.at_once} at once"
    return f"{sheet.cells:,} cells, {how}, "


def _parked(day: Money) -> list[tuple[str, str]]:
    return [("parked", f"{day} a day for its disks")] if day else []


def _cadence(sheet: PlanSheet) -> str:
    cadence = sheet.cadence
    if cadence is None:
        return "cadence unknown: the job has no checkpoint.write_time"
    steps = f" ({cadence.every_steps:,} steps)" if cadence.every_steps else ""
    how = "assumed" if cadence.assumed else "as you said"
    gap = f"an interruption every {ago(cadence.gap_s)} ({how}), {ago(cadence.write_s)} to write"
    return f"every {ago(cadence.every_s)}{steps}: {gap}"


def _copied(sheet: PlanSheet) -> list[tuple[str, str]]:
    tier = copy_tier(sheet.profile)
    if tier is None:
        return []
    if not sheet.durable:
        how = "lease box add NAME … --durable PATH names it"
        return [("no copy", f"the path of {tier.name} ({tier.place}) is not known; {how}")]
    sure = ", if it is attached" if tier.optional else ", as you said" if tier.stated else ""
    return [("copied to", f"{sheet.durable}  ({tier.name}{sure})")]


def _next(sheet: PlanSheet, at_unix: float) -> str:
    dated = [tick for tick in sheet.clocks if tick.due_s is not None]
    if not dated:
        return "-"
    tick = min(dated, key=lambda item: item.due_s or 0.0)
    return f"{utc_minute(at_unix + (tick.due_s or 0.0))[:10]} {tick.clock.name}"


def _dated(tick: Ticking, at_unix: float) -> str:
    if tick.due_s is not None:
        return f"{utc_minute(at_unix + tick.due_s)}"
    return say_when(tick.clock)


def _said(money: Money | None) -> str:
    return "unknown" if money is None else str(money)

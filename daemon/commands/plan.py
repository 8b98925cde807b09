"""`trimtab tune --dry-run` for people: what a campaign would try of each lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from daemon.commands.output import print_table, text


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print a `daemon.campaign_plan` lane by lane."""
    objective, limits = plan["objective"]["name"], text(plan["slo"])
    print(f"{plan['engine']}, {plan['engine_name']} {plan['engine_version']}; nothing is changed")
    if plan["stopped"]:
        print(f"nothing is tried now: {plan['stopped']}")
    print(f"incumbent: {text(plan['incumbent'])}")
    print(f"objective: {objective}, limits: {limits}, {plan['minutes']:g} minutes at most")
    print("\nhot lane, inside the running engine")
    rows = [(r["name"], r["low"], r["high"], "0 is off" if r["zero_is_off"] else "") for r in plan["search"]]
    print_table(("knob", "from", "to", ""), rows, "there is no knob to move here")
    print("\nhost lane, with no restart")
    if plan["host_note"]:
        print(plan["host_note"])
    else:
        hosts = [
            (name, ", ".join(plan["host"].get(name, ())) or "cannot be changed now: `trimtab host show`")
            for name in plan["host_knobs"]
        ]
        print_table(("knob", "values, the one in force first"), hosts, "no knob of the host is moved")
    print("\ncold lane, in restarts")
    _print_cold(plan["cold"], plan["restarts"])


def _print_cold(cold: Mapping[str, Any], restarts: int) -> None:
    if cold["why_not"]:
        print(cold["why_not"])
        return
    print(
        f"{restarts} restarts: {cold['most']} candidates at most, {cold['lost_minutes']:g} minutes of lost capacity"
        " at most"
    )
    if cold["window"]:
        print(f"none now: {cold['window']}")
    print(f"incumbent: {text(cold['incumbent'])}")
    rows = [
        (
            place,
            text(one["settings"]),
            one["source"] + (f": {one['note']}" if one["note"] else ""),
            "yes" if one["allowed"] else "; ".join(one["why_not"]),
        )
        for place, one in enumerate(cold["candidates"], 1)
    ]
    print_table(("", "start-up settings", "from", "can start"), rows, "no candidate is worth a restart")
    for line in cold["skipped"]:
        print(f"skipped: {line}")
    for one in cold["held"]:
        print(f"not moved: {one['name']}: {one['why']}")

"""The part of the configuration file that is about playbooks: which walk, how often, and through whose hooks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.sections.base import FilePath, Seconds, Section
from rules.actions import ActionKind


class HooksSection(Section):
    """The operator's own programs, as lists of words and never a shell's line; unset: not possible here.

    Each gets TRIMTAB_RUN, TRIMTAB_PLAYBOOK and TRIMTAB_TARGET in its environment; exit code 0 is done.
    """

    scale_up: list[str] = Field(default=[], description="starts one more replica")
    scale_down: list[str] = Field(default=[], description="takes it away again: the undo of scale_up")
    traffic_away: list[str] = Field(default=[], description="sends new requests to another replica")
    traffic_back: list[str] = Field(default=[], description="sends them here again: the undo of traffic_away")
    timeout_seconds: Seconds = Field(default=20.0, description="longest wait for one of them")


class ScaleSection(Section):
    """The Kubernetes object whose replicas `scale_up` changes, where there is no hook."""

    namespace: str = Field(default="default", description="its namespace")
    deployment: str | None = Field(default=None, description="name of the Deployment; unset: none")
    most_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(default=2, description="never more than this")


class PlaybooksSection(Section):
    """Playbooks."""

    enabled: bool = Field(
        default=True, description="walk playbooks when alerts fire; what they may do is `mode`'s"
    )
    shipped: bool = Field(default=True, description="the playbooks that come with Trimtab")
    files: list[FilePath] = Field(default=[], description="further playbook files, YAML")
    disabled: list[str] = Field(default=[], description="names of playbooks that never walk")
    allow: list[ActionKind] | None = Field(
        default=None, description="actions they may take; unset: every one there is"
    )
    acts_per_hour: Annotated[int, Field(ge=0, le=60)] = Field(
        default=4, description="actions that all playbooks together may take within an hour"
    )
    approval_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = Field(
        default=30, description="how long a run waits for an answer in mode advise"
    )
    hooks: HooksSection = HooksSection()
    scale: ScaleSection = ScaleSection()

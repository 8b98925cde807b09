"""The parts of the configuration file that are about alert rules and whom they are told to."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from daemon.sections.base import FilePath, Seconds, Section, Url
from daemon.sections.engine import TlsSection

WebhookFormat = Literal["plain", "dingtalk", "feishu", "wecom"]


class WebhookSection(Section):
    """One plain webhook that is told of every alert that fires or resolves, and of every run that acts."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = Field(
        description="short name, as logs and pages show it"
    )
    url_file: FilePath = Field(
        description="file with the address: it holds the robot's key, so it is a secret"
    )
    format: WebhookFormat = Field(default="plain", description="plain (JSON), dingtalk, feishu or wecom")
    secret_file: FilePath | None = Field(
        default=None, description="file with the robot's signing secret (dingtalk, feishu)"
    )
    least_severity: Literal["info", "warning", "critical"] = Field(
        default="warning", description="alerts below this are not sent"
    )


class RulesSection(Section):
    """Alert rules."""

    enabled: bool = Field(default=True, description="evaluate rules")
    shipped: bool = Field(default=True, description="the rules that come with Trimtab")
    files: list[FilePath] = Field(default=[], description="further rule files, YAML")
    disabled: list[str] = Field(default=[], description="names of rules that are left out")
    interval_seconds: Annotated[float, Field(ge=1, le=240)] = Field(
        default=15.0, description="between two evaluations of a group that does not say its own"
    )
    external_labels: dict[str, str] = Field(
        default={}, description="labels that every alert carries to Alertmanager, as in Prometheus"
    )
    webhooks: list[WebhookSection] = Field(default=[], description="plain webhooks beside Alertmanager")


class AlertmanagerSection(Section):
    """One Alertmanager; alerts go to every one that is named."""

    url: Url = Field(description="address of the Alertmanager, with its path prefix if it has one")
    username: str | None = Field(default=None, description="basic authentication: the user")
    password_file: FilePath | None = Field(
        default=None, description="basic authentication: file with the password"
    )
    bearer_file: FilePath | None = Field(default=None, description="file with a bearer token")
    timeout_seconds: Seconds = Field(default=10.0, description="longest wait for one answer")
    tls: TlsSection = TlsSection()

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file belong together")
        if self.username is not None and self.bearer_file is not None:
            raise ValueError("either username or bearer_file, not both")
        return self

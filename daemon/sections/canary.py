"""The part of the configuration file that names a canary: a second replica on which start-up settings are tried."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from daemon.sections.base import FilePath, RootPath, Section, Url
from daemon.sections.engine import EngineSection, TlsSection
from daemon.sections.server import ServerSection

CANARY = "canary"
"""The label `server` of its samples."""


class CanarySection(Section):
    """A second replica of the tuned engine, with the same settings and the same share of the same users."""

    url: Url | None = Field(default=None, description="address of the second replica; unset: there is none")
    root_path: RootPath = Field(default="", description="path prefix of its API (--root-path)")
    token_file: FilePath | None = Field(
        default=None, description="file with the token of its plugin; it is needed"
    )
    api_key_file: FilePath | None = Field(
        default=None, description="file with its API key; unset: it takes that of the engine"
    )
    tls: TlsSection = TlsSection()
    server: ServerSection = ServerSection()
    roll_out: bool = Field(
        default=False,
        description="restart the engine with what held on the canary; off: the report says how to roll it out",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.url is None:
            if self.token_file or self.api_key_file or self.roll_out or self.server.hand != "none":
                raise ValueError("url is missing: give the address of the second replica")
            return self
        if self.token_file is None:
            raise ValueError("token_file is missing: its hot values are set through its plugin")
        if self.server.hand in ("none", "process"):
            raise ValueError(
                f"server.hand is {self.server.hand}: a canary is there to be restarted, by systemd, docker, "
                "kubernetes or hook (process starts the engine beside this daemon)"
            )
        return self

    def against(self, engine: EngineSection) -> str | None:
        """Why this cannot be beside `engine`, or None: whoever restarts the one must not restart the other."""
        if self.url is None:
            return None
        if (self.url, self.root_path) == (engine.url, engine.root_path):
            return "tune.canary.url is engine.url: give the address of the second replica"
        mine, theirs = self.server, engine.server
        if mine.hand == theirs.hand and getattr(mine, mine.hand) == getattr(theirs, theirs.hand):
            return (
                f"tune.canary.server.{mine.hand} names what engine.server does: the engine would be restarted"
            )
        return None

    def as_engine(self, engine: EngineSection) -> EngineSection:
        """The canary as an engine of its own, in everything else like the one beside it."""
        assert self.url is not None, "a canary is configured"
        return engine.model_copy(
            update={
                "url": self.url,
                "root_path": self.root_path,
                "metrics_url": None,
                "token_file": self.token_file,
                "api_key_file": self.api_key_file or engine.api_key_file,
                "tls": self.tls,
                "server": self.server,
            }
        )

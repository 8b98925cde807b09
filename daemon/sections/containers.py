"""The parts of the configuration file that name an engine which runs in a container or in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from daemon.sections.base import FilePath, Seconds, Section

WorkloadKind = Literal["Deployment", "StatefulSet"]
ContainerName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]+$", max_length=128)]
ClusterName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
"""A DNS name, as Kubernetes wants its objects named."""


class DockerSection(Section):
    """The engine is a container of Docker, or of Podman's service that speaks Docker's API."""

    container: ContainerName | None = Field(default=None, description="name of the engine's container")
    socket: FilePath = Field(
        default=Path("/var/run/docker.sock"), description="socket of the Docker Engine API"
    )
    timeout_seconds: Seconds = Field(
        default=60.0, description="longest wait for one answer, a stop's grace apart"
    )


class KubernetesSection(Section):
    """The engine is a container of a Deployment's or a StatefulSet's pods."""

    kind: WorkloadKind = Field(default="Deployment", description="Deployment or StatefulSet")
    name: ClusterName | None = Field(default=None, description="name of the Deployment or StatefulSet")
    container: ClusterName | None = Field(
        default=None, description="name of the engine's container; unset: the pod has only one"
    )
    namespace: ClusterName | None = Field(
        default=None, description="namespace; unset: the one of the service account or of the context"
    )
    kubeconfig: FilePath | None = Field(
        default=None,
        description="file that says how the cluster is reached; unset: this pod's service account",
    )
    context: str | None = Field(default=None, description="context of the kubeconfig; unset: its current one")
    timeout_seconds: Seconds = Field(
        default=10.0, description="longest wait for one answer of the API server"
    )

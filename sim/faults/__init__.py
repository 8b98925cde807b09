"""Troubles of a simulated replica: each acts through what it does to cards, memory, engine, host or users."""

from sim.faults.draws import FAULTS, Fault, FaultName, draw
from sim.faults.node import TroubledNode

__all__ = ["FAULTS", "Fault", "FaultName", "TroubledNode", "draw"]

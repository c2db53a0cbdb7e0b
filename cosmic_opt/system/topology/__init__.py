"""Topology blocks. One file each; importing this package registers them all."""

from __future__ import annotations

from cosmic_opt.system.topology import fully_connected, ring, switch
from cosmic_opt.system.topology.base import TOPOLOGIES, Block, Link, Route

__all__ = ["TOPOLOGIES", "Block", "Link", "Route", "fully_connected", "ring", "switch"]

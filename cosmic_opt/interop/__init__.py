"""Reads and writes the files of other tools; importing this package registers its readers."""

from __future__ import annotations

from cosmic_opt.interop.astra_sim import (
    read_communicator_groups,
    read_machine,
    read_network,
    read_remote_memory,
    read_system,
)
from cosmic_opt.interop.chakra import read_trace, write_trace
from cosmic_opt.interop.layer_table import read_layer_table
from cosmic_opt.interop.system_import import import_astra_sim
from cosmic_opt.interop.trace_folder import read_workload, write_workload

__all__ = [
    "import_astra_sim",
    "read_communicator_groups",
    "read_layer_table",
    "read_machine",
    "read_network",
    "read_remote_memory",
    "read_system",
    "read_trace",
    "read_workload",
    "write_trace",
    "write_workload",
]

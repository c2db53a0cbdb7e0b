"""An instance of a user's own, in a folder of its own, and ways to change one of its files."""

from __future__ import annotations

from pathlib import Path

from cosmic_opt.catalog.bind import BoundInstance, bind
from cosmic_opt.catalog.edits import Edits, parse_edits
from cosmic_opt.catalog.instance_file import load_instance
from cosmic_opt.feasibility.feasible_set import feasible_set
from cosmic_opt.ir.lower import lower

FILES = {
    "instance.yaml": """\
schema: cosmic-opt/instance@1
model: parts/model.yaml
workload: parts/workload.yaml
system: parts/system.yaml
job: {kind: training, global_batch: 64}
data: {memory_capacity: 16 GB, price_rule: cosmic}
scope: all
design: {dp: 2, tp: 2, chunks: 4}
constraints: {small_tp: tp <= 4}
objective: step_time
""",
    "parts/model.yaml": """\
schema: cosmic-opt/model@1
name: own
indices: {dim: dims}
parameters:
  dp: {stack: workload, domain: {powers_of: 2, from: 1, to: npus}}
  tp: {stack: workload, domain: [1, 2, 4]}
  chunks: {stack: collective, domain: [1, 4]}
  topology: {stack: network, per: dim, domain: [ring, switch]}
  bandwidth: {stack: network, per: dim, unit: bytes/s, domain: [50 GB/s, 100 GB/s]}
constraints:
  world: dp * tp == npus
scopes:
  all: {free: [dp, tp, topology, bandwidth]}
  degrees: {free: [dp, tp], constraints: {by_four: dp % 4 == 0}}
""",
    "parts/workload.yaml": """\
schema: cosmic-opt/workload@1
kind: transformer
name: tiny
layers: 4
hidden: 64
heads: 4
ffn: 256
sequence: 128
vocabulary: 1000
""",
    "parts/system.yaml": """\
schema: cosmic-opt/system@1
name: own
device: device.yaml
prices: prices.yaml
dimensions:
  - {topology: ring, npus: 2, bandwidth: 75 GB/s, latency: 20 ns, algorithm: ring, tier: board}
  - {topology: switch, npus: 4, bandwidth: 50 GB/s, latency: 1 us, algorithm: direct, tier: rack}
collectives: {chunks: 4, multidim: baseline}
""",
    "parts/device.yaml": """\
schema: cosmic-opt/device@1
name: own
peak: 100 TFLOPS
memory_bandwidth: 1000 GB/s
memory_capacity: 32 GB
""",
    "parts/prices.yaml": """\
schema: cosmic-opt/prices@1
name: own
tiers:
  board: {link: 2 $}
  rack: {link: 4.5 $, switch: 13 $, nic: 31.6 $}
""",
}


def write(folder: Path, file: str = "", old: str = "", new: str = "") -> Path:
    """Write the instance's files, one of them changed, and return the path of the instance."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        assert name != file or text.count(old) == 1, (old, file)
        path.write_text(text.replace(old, new) if name == file else text, encoding="utf-8")
    return folder / "instance.yaml"


def bound(path: Path | str, edits: Edits | None = None) -> BoundInstance:
    """Return the instance at `path`, bound."""
    return bind(load_instance(str(path)), edits or Edits())


def size(instance: BoundInstance) -> int:
    """Return the number of feasible designs."""
    return feasible_set(lower(instance.parameter_set)).size


def edited(path: Path | str, **options: list[str] | str) -> BoundInstance:
    """Return the instance bound with edits, as the command line spells them."""
    return bound(path, parse_edits(**options))  # type: ignore[arg-type]

"""Closed forms of a training step, vectorised over designs; cost independent of NPUs and layers.

The step of the pipeline stage that delays it most, worked for every micro-batch, plus its least waits for the others
(1F1B: Narayanan 2021), plus what sharded data parallelism exposes, plus the optimizer: a lower bound of every order
of events, and equal to `simulation.events` where nothing contends.

- Compute: a roofline per operator of `workloads.operators`, each rounded once to a tick.
- Tensor parallelism: two synchronisations of the residual stream per layer and direction; each an all-reduce,
  or a reduce-scatter and an all-gather with sequence parallelism (Shoeybi 2019, Korthikanti 2022). A text model's
  embedding synchronises forward and its head backward (vocabulary-parallel); a loss's two scalars per token are
  left out. All of it blocks compute.
- Context parallelism (sp): keys and values are gathered before attention each way, and their gradients reduced.
- Pipeline: a send to each neighbour holds its stage per micro-batch, at the cost of the worst pair of neighbours;
  with sequence parallelism a rank sends its part of the stream.
- Data parallelism over dp * sp: buckets of one layer, the embedding and the head (`sharding`). ZeRO 0 all-reduces
  gradients; 1 and 2 reduce-scatter them and gather weights once a step; 3 gathers weights forward and backward
  with every micro-batch, but under a pipeline once a step, when they then stay whole in memory. The sum of a tied
  embedding's two gradients over the first and last stage is left out.
- Host memory: a layer ends with the later of its work and its traffic with the host; see `structure` for what
  moves when (Calculon: Isaev et al., SC '23).
- Collectives: `traffic`; phases of `system.phase` in the order of `system.multidim.plan`, in equal chunks.

`scheduling_policy` cannot change these closed forms: they hold under every order of service.
"""

from cosmic_opt.simulation.analytical.layout import HIDDEN, TERMS
from cosmic_opt.simulation.analytical.metrics import Metrics
from cosmic_opt.simulation.analytical.simulator import AnalyticalSimulator, Evaluation, Prepared

__all__ = ["HIDDEN", "TERMS", "AnalyticalSimulator", "Evaluation", "Metrics", "Prepared"]

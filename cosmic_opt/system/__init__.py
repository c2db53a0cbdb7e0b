"""Where it runs: NPUs, network dimensions, collective algorithms and what they cost in time and money."""

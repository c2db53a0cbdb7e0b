"""What runs: transformer shapes, their operators, parallel degrees and memory footprints."""

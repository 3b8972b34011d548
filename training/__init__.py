"""One run: flags, devices, optimizer, schedule, loop, checkpoints, metrics."""

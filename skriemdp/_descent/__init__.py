"""Private descent on manifolds: problems, batches, and the loops over noisy gradients."""

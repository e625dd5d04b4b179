"""Loops over private steps; solvers draw no noise themselves, mechanisms do."""

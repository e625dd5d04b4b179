"""Riemannian Gaussian and Laplace laws: densities, samplers, profiles, output perturbation."""

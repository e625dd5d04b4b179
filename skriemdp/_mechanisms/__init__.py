"""Mechanisms, which add noise: frozen objects, each with the event that it costs."""

"""Numbers only: events, profiles, sensitivities, budgets; never a point."""

"""The order of work that all estimators share: validate, plan, charge, release, report."""

"""Centre and scale of sensitive data, found privately: what every estimator does on raw data.

A package of its own because means, classifiers, components, linear models and regressions all
start with it and none of them may import another.
"""

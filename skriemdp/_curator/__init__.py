"""The one object that holds the records of a fit and its budget, and gives out noisy numbers."""

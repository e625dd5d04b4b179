"""Neighbouring data sets fitted to the same released answers: every claimed bound is measured."""

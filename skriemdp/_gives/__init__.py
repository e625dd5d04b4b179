"""Contributions of rows to answers: small objects of public fields, called where records are."""

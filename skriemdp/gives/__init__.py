"""What a row gives to an answer: small objects of public fields, called where the records are."""

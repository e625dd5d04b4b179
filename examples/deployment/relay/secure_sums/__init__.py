"""What Flower carries of a secure sum: bytes."""

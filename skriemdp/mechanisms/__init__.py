"""Where a point meets noise: frozen mechanisms, each with the event that it costs."""

"""Private Fréchet means, or one per class; and components around one."""

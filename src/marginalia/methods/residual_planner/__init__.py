"""ResidualPlanner."""

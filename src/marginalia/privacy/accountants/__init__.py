"""What a list of events costs: one accountant a file."""

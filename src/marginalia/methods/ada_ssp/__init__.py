"""AdaSSP."""

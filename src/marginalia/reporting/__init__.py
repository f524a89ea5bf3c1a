"""Tables, figures, comparison with published numbers, and the report page."""

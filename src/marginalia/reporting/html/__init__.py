"""The report page of a results folder: its words, its drawings, and what makes them answer to a pointer or a key."""

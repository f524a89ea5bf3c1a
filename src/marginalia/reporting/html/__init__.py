"""The report page of a results folder: its sentences, tables and figures in one HTML file."""

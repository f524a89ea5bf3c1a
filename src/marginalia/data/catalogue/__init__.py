"""One reader per kind of published file; each turns checked local files into a `Table`."""

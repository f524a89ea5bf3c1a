"""The figures of the studies: one module a paper, imported only when something is drawn."""

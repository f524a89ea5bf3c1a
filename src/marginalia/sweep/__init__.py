"""From a configuration to result records: the registry of methods, splits, fits, cells and metrics."""

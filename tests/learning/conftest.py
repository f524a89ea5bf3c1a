from learning_helpers import released, table  # noqa: F401

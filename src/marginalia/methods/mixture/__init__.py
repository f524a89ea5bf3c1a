"""AIM's selection with a mixture of products."""

"""Where exact counts come from: tables in memory, files that are streamed, databases."""

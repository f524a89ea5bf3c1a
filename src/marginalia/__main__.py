"""``python -m marginalia``."""

from marginalia.cli.app import main

if __name__ == "__main__":
    main()

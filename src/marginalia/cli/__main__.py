"""``python -m marginalia.cli``."""

from marginalia.cli.app import main

if __name__ == "__main__":
    main()

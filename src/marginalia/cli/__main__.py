"""``python -m marginalia.cli``."""

from marginalia.cli.run import main

if __name__ == "__main__":
    main()

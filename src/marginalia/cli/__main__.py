"""``python -m marginalia.cli``."""

from marginalia.cli.verbs import main

if __name__ == "__main__":
    main()

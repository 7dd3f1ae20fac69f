"""``python -m reconciler``."""

from reconciler.cli.start import main

if __name__ == "__main__":
    main()

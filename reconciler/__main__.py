"""``python -m reconciler``."""

from reconciler.start import main

if __name__ == "__main__":
    main()

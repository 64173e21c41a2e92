"""`python -m daemon` and the `scanmd` command."""

from daemon.cli import main

if __name__ == "__main__":
    main()

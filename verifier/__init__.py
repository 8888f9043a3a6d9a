"""Independent ways to be wrong: the checker, its command line, and the engines it is compared with."""

__version__ = "0.1.0"

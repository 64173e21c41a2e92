"""Poppler's programs, each run in a process of its own and under limits."""

"""Watches inboxes, decides when and where, and supervises the reading of documents."""

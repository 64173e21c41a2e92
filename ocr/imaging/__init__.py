"""Care for page images before reading: plain functions from array to array."""

"""DeepSeek-OCR-2: a GPU engine that reads a page in bounded memory.

The text decoder runs on this package's own runtime (`decoder`, `cache`,
`generate`); the vision tower and the image processor are the transformers
classes, reached through `upstream` alone.
"""

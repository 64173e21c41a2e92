"""PP-OCR models from pip packages, run on the processor."""

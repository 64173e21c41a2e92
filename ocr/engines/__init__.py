"""The engines: one package per model, one contract for all."""

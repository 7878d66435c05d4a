"""A model server without a model: services/inference.md says what it does."""

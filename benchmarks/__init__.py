"""Benchmarks of schemac against its peers; nothing here is installed."""

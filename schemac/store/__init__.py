"""Filling and keeping a store of packages; `schemac_runtime.store` reads it."""

"""What a server needs around the runtime: compiles in processes of their own, a bounded cache, stores, metrics.

Nothing here imports vLLM, or `schemac`: a compile is asked of ``python -m schemac.worker``.
"""

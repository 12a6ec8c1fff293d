"""A structured-output backend for vLLM: ``--structured-outputs-config '{"backend": "schemac"}'``.

vLLM calls `register` in each of its processes, by the entry point ``vllm.general_plugins``. See docs/vllm.md.
"""

from __future__ import annotations


def register(*, strict: bool = False) -> bool:
    """Make the backend ``schemac`` known to the vLLM that is installed; calling it again does nothing.

    Args:
        strict: raise instead of logging.

    Returns:
        Whether the backend is known now. A vLLM of an unknown version is left as it is: asking it for the backend
        is refused by vLLM itself, and the reason is in the log.

    Raises:
        VersionError: with `strict`, where False would be returned.
    """
    from schemac_runtime.vllm.versions import VersionError, installed

    try:
        version = installed()
        from schemac_runtime.vllm.patches import apply

        apply(version)
    except VersionError as error:
        if strict:
            raise
        import logging

        logging.getLogger("vllm.schemac").error("schemac: %s", error)
        return False
    return True

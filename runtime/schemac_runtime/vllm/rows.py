"""Row ids in the place of packed masks between vLLM's scheduler and its model runner, see `docs/vllm.md`.

With the setting `device_rows` the scheduler's mask buffer is a `StepMasks`, and what reaches the runner is a step. The
runner's function that applies masks is wrapped: it takes steps, and hands packed masks on to vLLM's own. Where a runner
cannot take steps, packed masks are sent as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from schemac_runtime.device.serving import StepMasks, StepReceiver, logit_rows
from schemac_runtime.device.steps import RowSource
from schemac_runtime.vllm.versions import Version, checked

#: The function of the model runner, and the module that has imported it by name.
_MODULE, _NAME = "vllm.v1.structured_output.utils", "apply_grammar_bitmask"
_RUNNER = "vllm.v1.worker.gpu_model_runner"
_ARGUMENTS = ("scheduler_output", "grammar_output", "input_batch", "logits")
_MARK = "_schemac_rows"
#: By the batch of a model runner, which lives as long as the runner does.
_receivers: WeakKeyDictionary[Any, StepReceiver] = WeakKeyDictionary()


def refusal(vllm_config: Any, version: Version) -> str | None:
    """Why the model runner of this configuration gets packed masks, or None if it takes row ids."""
    if not version.row_ids:
        return f"the mask buffer of vLLM {version.text} is used in ways that were not tried"
    if getattr(vllm_config, "use_v2_model_runner", False):
        return "vLLM's newer model runner is used (VLLM_USE_V2_MODEL_RUNNER=0 turns it off)"
    if getattr(getattr(vllm_config, "parallel_config", None), "pipeline_parallel_size", 1) > 1:
        return "with pipeline parallelism steps overlap"
    return None


def step_masks(rows: int, vocab_size: int, requests: int) -> StepMasks:
    """The scheduler's buffer.

    Args:
        rows: of the arena in each worker; at least 2.
        vocab_size: of the model.
        requests: rows of logits in a step, at most.
    """
    return StepMasks(RowSource(max(rows, 2), vocab_size), requests)


def patch_runner(version: Version) -> None:
    """Wrap the function that applies masks, once; packed masks go to vLLM's own as before.

    Raises:
        VersionError: it takes other arguments.
    """
    import importlib

    module = importlib.import_module(_MODULE)
    original = getattr(module, _NAME)
    if getattr(original, _MARK, False):
        return
    checked(version, f"{_MODULE}:{_NAME}", original, _ARGUMENTS)
    wrapped = taking_steps(original)
    setattr(module, _NAME, wrapped)
    runner = sys.modules.get(_RUNNER)
    if runner is not None and getattr(runner, _NAME, None) is original:
        setattr(runner, _NAME, wrapped)


def taking_steps(original: Callable[..., None]) -> Callable[..., None]:
    """vLLM's function, which also takes steps in the place of packed masks."""

    def apply_grammar_bitmask(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: Any) -> None:
        data = grammar_output.grammar_bitmask
        if data.ndim != 3:
            original(scheduler_output, grammar_output, input_batch, logits)
            return
        receiver = _receivers.get(input_batch)
        if receiver is None:
            receiver = _receivers[input_batch] = StepReceiver()
        constrained = grammar_output.structured_output_request_ids
        rows = logit_rows(constrained, input_batch.req_ids, scheduler_output.scheduled_spec_decode_tokens)
        receiver.apply(data, logits, rows)

    setattr(apply_grammar_bitmask, _MARK, True)
    return apply_grammar_bitmask

"""Row ids in the place of packed masks between vLLM's scheduler and its model runner, see `docs/vllm.md`.

With the setting `device_rows` the scheduler's mask buffer is a `StepMasks`, and what reaches the runner is a step. The
runner's function that applies masks is wrapped: it takes steps, and hands packed masks on to vLLM's own. Where a runner
cannot take steps, packed masks are sent as ever.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from schemac_runtime.device.serving import StepMasks, StepReceiver, logit_rows
from schemac_runtime.device.steps import RowSource
from schemac_runtime.errors import DeviceError
from schemac_runtime.vllm.versions import Version, checked

#: The function of the older model runner, and the module that has imported it by name.
_MODULE, _NAME = "vllm.v1.structured_output.utils", "apply_grammar_bitmask"
_RUNNER = "vllm.v1.worker.gpu_model_runner"
_ARGUMENTS = ("scheduler_output", "grammar_output", "input_batch", "logits")
#: The method of the newer one.
_NEWER, _CLASS = "vllm.v1.worker.gpu.structured_outputs", "StructuredOutputsWorker"
_NEWER_ARGUMENTS = ("self", "logits", "input_batch", "grammar_req_ids", "grammar_bitmask")
_MARK = "_schemac_rows"
#: By the batch or the worker of a model runner, which live as long as the runner does.
_receivers: WeakKeyDictionary[Any, StepReceiver] = WeakKeyDictionary()


def refusal(vllm_config: Any, version: Version) -> str | None:
    """Why the model runner of this configuration gets packed masks, or None if it takes row ids."""
    parallel = getattr(vllm_config, "parallel_config", None)
    if not version.row_ids:
        return f"the mask buffer of vLLM {version.text} is used in ways that were not tried"
    if getattr(parallel, "pipeline_parallel_size", 1) > 1:
        return "with pipeline parallelism steps overlap"
    if getattr(vllm_config, "use_v2_model_runner", False):
        if getattr(vllm_config, "speculative_config", None) is not None:
            return "vLLM's newer model runner finds the rows of drafts on the device"
        if getattr(parallel, "enable_batch_sharded_sampling", False):
            return "ranks that sample a part of the batch each take a part of the masks"
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
    """Wrap what applies masks, once; packed masks go to vLLM's own as before.

    Raises:
        VersionError: it takes other arguments.
    """
    module = importlib.import_module(_MODULE)
    original = getattr(module, _NAME)
    if not getattr(original, _MARK, False):
        checked(version, f"{_MODULE}:{_NAME}", original, _ARGUMENTS)
        wrapped = taking_steps(original)
        setattr(module, _NAME, wrapped)
        runner = sys.modules.get(_RUNNER)
        if runner is not None and getattr(runner, _NAME, None) is original:
            setattr(runner, _NAME, wrapped)
    from vllm.platforms import current_platform

    if current_platform.is_cuda_alike():  # elsewhere the newer runner is never used, and its module may not import
        worker = getattr(importlib.import_module(_NEWER), _CLASS)
        method = getattr(worker, _NAME)
        if not getattr(method, _MARK, False):
            checked(version, f"{_NEWER}:{_CLASS}.{_NAME}", method, _NEWER_ARGUMENTS)
            setattr(worker, _NAME, newer_taking_steps(method))


def _receiver(owner: Any) -> StepReceiver:
    receiver = _receivers.get(owner)
    if receiver is None:
        receiver = _receivers[owner] = StepReceiver()
    return receiver


def taking_steps(original: Callable[..., None]) -> Callable[..., None]:
    """The older runner's function, which also takes steps in the place of packed masks."""

    def apply_grammar_bitmask(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: Any) -> None:
        data = grammar_output.grammar_bitmask
        if data.ndim != 3:
            original(scheduler_output, grammar_output, input_batch, logits)
            return
        constrained = grammar_output.structured_output_request_ids
        rows = logit_rows(constrained, input_batch.req_ids, scheduler_output.scheduled_spec_decode_tokens)
        _receiver(input_batch).apply(data, logits, rows)

    setattr(apply_grammar_bitmask, _MARK, True)
    return apply_grammar_bitmask


def newer_taking_steps(original: Callable[..., None]) -> Callable[..., None]:
    """The newer runner's method, which also takes steps, of requests without drafts: one row of logits for each."""

    def apply_grammar_bitmask(
        self: Any, logits: Any, input_batch: Any, grammar_req_ids: Any, grammar_bitmask: Any
    ) -> None:
        if grammar_bitmask.ndim != 3:
            original(self, logits, input_batch, grammar_req_ids, grammar_bitmask)
            return
        starts = input_batch.cu_num_logits_np
        first = {name: (int(starts[i]), int(starts[i + 1])) for i, name in enumerate(input_batch.req_ids)}
        spans = [first.get(name, (-1, 0)) for name in grammar_req_ids]
        if any(end - start != 1 for start, end in spans):
            raise DeviceError("a request has more than one row of logits, for which no row ids were asked")
        _receiver(self).apply(grammar_bitmask, logits, [start for start, _ in spans])

    setattr(apply_grammar_bitmask, _MARK, True)
    return apply_grammar_bitmask

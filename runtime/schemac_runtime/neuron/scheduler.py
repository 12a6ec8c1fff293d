"""What the scheduler attaches to its output for the model runner.

vLLM Neuron's scheduler attaches ``_grammar_bitmask``, the compact masks as vLLM's base scheduler makes them, and
``_structured_output_request_ids``, whose they are. `attach_bitmask` does that. `attach_rows` replaces the masks by ids
of arena rows, in the same order, and the rows that the arena lacks:

    class RowIdScheduler(SendsRowIds, ContinuousBatchingNeuronScheduler): ...

    scheduler.row_table = RowTable(rows=4096, vocab_size=128256)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemac_runtime.device.steps import Step, decode
from schemac_runtime.errors import MatcherError
from schemac_runtime.neuron.rows import RowTable

#: Attributes of the scheduler's output.
BITMASK, REQUEST_IDS, ROWS = "_grammar_bitmask", "_structured_output_request_ids", "_grammar_rows"


def attach_bitmask(scheduler_output: Any, grammar_output: Any) -> None:
    """Attach what vLLM's ``get_grammar_bitmask`` returned; None, for a step without constrained requests, is nothing.

    Args:
        scheduler_output: vLLM's `SchedulerOutput`.
        grammar_output: vLLM's `GrammarOutput`: ``grammar_bitmask`` int32 [n, W], ``structured_output_request_ids``.
    """
    if grammar_output is None or grammar_output.grammar_bitmask is None:
        return
    setattr(scheduler_output, BITMASK, grammar_output.grammar_bitmask)
    setattr(scheduler_output, REQUEST_IDS, grammar_output.structured_output_request_ids)


def attach_rows(scheduler_output: Any, table: RowTable | None = None) -> None:
    """Replace the masks that are attached by a `Step`: 4 bytes per row instead of V.

    Args:
        scheduler_output: vLLM's `SchedulerOutput`.
        table: what the arena holds; not needed where the backend sends row ids itself, as schemac's does with the
            setting `device_rows`.

    Raises:
        MatcherError: there are masks, and no table to find their rows in.
        ArenaFull: see `RowTable.step`.
    """
    masks = getattr(scheduler_output, BITMASK, None)
    if masks is None:
        return
    sent = decode(masks)
    if sent is not None:
        step, _ = sent
    elif table is not None:
        step = table.step(masks)
    else:
        raise MatcherError("the backend made masks, and there is no table of rows", hint="set row_table")
    attach_step(scheduler_output, step, getattr(scheduler_output, REQUEST_IDS))


def attach_step(scheduler_output: Any, step: Step, request_ids: Sequence[str]) -> None:
    """Attach row ids that are there already, such as from `schemac_runtime.device.RowSource`.

    Args:
        scheduler_output: vLLM's `SchedulerOutput`.
        step: one row id per position of each request, in this order.
        request_ids: the constrained requests.
    """
    setattr(scheduler_output, ROWS, step)
    setattr(scheduler_output, REQUEST_IDS, request_ids)
    setattr(scheduler_output, BITMASK, None)


class SendsRowIds:
    """Goes before a vLLM scheduler class, with or without vLLM Neuron's own attachment, to send row ids.

    Attributes:
        row_table: what the arena of the model runner's sampler holds; set it before the first step, unless the backend
            sends row ids itself.
    """

    row_table: RowTable | None = None

    def schedule(self) -> Any:
        """The step's output of the scheduler class, with row ids attached."""
        base: Any = super()
        output = base.schedule()
        if getattr(output, BITMASK, None) is None:
            attach_bitmask(output, base.get_grammar_bitmask(output))
        attach_rows(output, self.row_table)
        return output

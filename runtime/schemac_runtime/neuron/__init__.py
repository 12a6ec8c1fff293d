"""Structured outputs with vLLM on AWS Neuron: what the scheduler, the model runner and the on-device sampler need.

* `schemac_runtime.neuron.sampler`: a torch module that masks on the device, from row ids; it is traced once.
* `schemac_runtime.neuron.layout`: the scheduler's compact masks or row ids, brought to the order of the logits.
* `schemac_runtime.neuron.scheduler`: what travels with the scheduler's output.
* `schemac_runtime.neuron.runner`: what the model runner hands to the model in each step, and at warm-up.

`docs/neuron.md` shows how they fit together. Importing this package imports nothing; its modules need torch.
"""

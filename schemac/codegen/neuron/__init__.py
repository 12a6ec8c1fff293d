"""Neuron targets: HLO modules for AWS Trainium and Inferentia, and the compiler that makes NEFF files of them."""

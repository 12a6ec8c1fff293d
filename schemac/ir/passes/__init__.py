"""The passes, one file each; `schemac.ir.pipeline` puts them in order."""

"""The JSON Schema frontend: drafts 4 to 2020-12, lowered exactly.

Stages, each a module: `load` (JSON with exact numbers), `references` (where names lead), `translate` (keywords to
`formula` nodes), `typed` (split by type), `objects` and `arrays` (frames), `lower` (procedures), `productive` (no dead
ends).
"""

from schemac.frontend.json_schema.frontend import json_schema_module
from schemac.frontend.json_schema.options import JsonSchemaOptions, SchemaWarning

__all__ = ["JsonSchemaOptions", "SchemaWarning", "json_schema_module"]

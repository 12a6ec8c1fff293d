"""What an operator may set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from schemac_runtime.errors import SchemacError

MIB = 1 << 20
WHITESPACE = ("flexible", "single", "compact")
KEY_ORDERS = ("schema", "any")
ON_MISS = ("compile", "reject")


class SettingsError(SchemacError):
    """A setting has no such name or value."""


@dataclass(frozen=True)
class Settings:
    """The settings of a server, ``{"schemac": {...}}`` in vLLM's ``--additional-config``.

    Attributes:
        stores: folders of packages, looked up in this order.
        on_miss: ``compile`` what no store has, or ``reject`` it.
        tokenizer: what `schemac build --tokenizer` was given, where the server's own tokenizer files would not give
            the same fingerprint.
        whitespace: of JSON; None: ``compact`` where vLLM is told `disable_any_whitespace`, else ``flexible``.
        key_order: of JSON objects, ``schema`` or ``any``.
        strict: warnings refuse a request.
        finish: keep answers within `max_tokens`, unless a request says otherwise.
        compile_seconds: deadline of one compile.
        compile_mib: memory that one compile may take beyond the vocabulary's own, 0 for no limit.
        workers: compile processes of each server process.
        cache_mib: packages that the engine keeps ready.
        scratch_mib: packages of finished compiles that are kept on disk while the server runs.
        device_rows: rows of a mask arena on each device, so that row ids travel instead of masks; 0 for packed masks.
        limits: budget overrides of every compile.
    """

    stores: tuple[str, ...] = ()
    on_miss: str = "compile"
    tokenizer: str | None = None
    whitespace: str | None = None
    key_order: str = "schema"
    strict: bool = False
    finish: bool = False
    compile_seconds: float = 30.0
    compile_mib: int = 4096
    workers: int = 1
    cache_mib: int = 1024
    scratch_mib: int = 2048
    device_rows: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(data: object) -> Settings:
        """Settings from parsed JSON; None is all defaults.

        Raises:
            SettingsError: a name or value is not known.
        """
        if data is None:
            return Settings()
        if not isinstance(data, Mapping):
            raise SettingsError("the settings are not an object", construct="schemac")
        known = {f.name: f for f in fields(Settings)}
        values: dict[str, Any] = {}
        for name, value in data.items():
            if name not in known:
                hint = "known are " + ", ".join(known)
                raise SettingsError("there is no such setting", construct=str(name), hint=hint)
            default = known[name].default if known[name].default is not MISSING else {}
            values[name] = _checked(name, value, default)
        return Settings(**values)


def _checked(name: str, value: object, default: object) -> Any:
    allowed: tuple[str, ...] = ()
    if name == "stores":
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, (list, tuple)) and all(isinstance(item, str) for item in listed):
            return tuple(listed)
        expected = "a list of folders"
    elif name == "limits":
        if isinstance(value, Mapping) and all(isinstance(n, int) and n >= 0 for n in value.values()):
            return dict(value)
        expected = "an object of whole numbers"
    elif isinstance(default, bool):
        if isinstance(value, bool):
            return value
        expected = "true or false"
    elif isinstance(default, (int, float)):
        if isinstance(value, (int, type(default))) and not isinstance(value, bool) and value >= (name == "workers"):
            return type(default)(value)
        expected = "a number"
    else:
        allowed = {"on_miss": ON_MISS, "whitespace": WHITESPACE, "key_order": KEY_ORDERS}.get(name, ())
        if isinstance(value, str) and (not allowed or value in allowed):
            return value
        if value is None and default is None:
            return None
        expected = "one of " + ", ".join(allowed) if allowed else "a text"
    raise SettingsError(f"{value!r} is not {expected}", construct=name)

"""Dates and times of RFC 3339: `full-date`, `full-time`, `date-time` (section 5.6) and `duration` (appendix A).

Exact, with real calendar days, save for two things:

- The year 0000 is left out. RFC 3339 allows it, calendars that start with year 1 (Python's, most databases') do not.
- A leap second (``:60``, section 5.7) is at 23:59 UTC, in a date-time at the end of June or December. So that few
  states are needed it is written only with an offset of whole or half hours, in a date-time with one of whole hours
  from -12 to +14 (those of time zones).
"""

from __future__ import annotations

_YEAR = "[0-9]{4}"
_MONTH_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
#: Two digits divisible by 4, but not 00 (appendix C: leap years).
_FOURS = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURS}|(?:{_FOURS}|00)00)"
_YEAR_1_TO_9999 = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR_4_TO_9999 = f"(?:[0-9]{{2}}{_FOURS}|{_FOURS}00)"

_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_FRACTION = r"(?:\.[0-9]+)?"
_TIME = f"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{_FRACTION}{_OFFSET}"

#: `full-date`; and with the year 0000.
DATE = f"{_YEAR_1_TO_9999}-{_MONTH_DAY}|{_LEAP_YEAR_4_TO_9999}-02-29"
DATE_AT_MOST = f"{_YEAR}-{_MONTH_DAY}|{_LEAP_YEAR}-02-29"


def _leap_seconds(offsets: range) -> tuple[str, str]:
    """The local times with offset that are 23:59:60 UTC, on the same day and on the next one; offsets in minutes."""
    same_day = [f"23:59:60{_FRACTION}(?:[Zz]|[+-]00:00)"]
    next_day = []
    for offset in offsets:
        local = 24 * 60 - 1 + offset
        time = f"{local // 60 % 24:02d}:{local % 60:02d}:60{_FRACTION}"
        hours_minutes = f"{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
        if offset < 0:
            same_day.append(f"{time}-{hours_minutes}")
        elif offset > 0:
            next_day.append(rf"{time}\+{hours_minutes}")
    return "(?:" + "|".join(same_day) + ")", "(?:" + "|".join(next_day) + ")"


#: `full-time`; and with a leap second at any time.
TIME = "|".join((_TIME, *_leap_seconds(range(-47 * 30, 47 * 30 + 1, 30))))
TIME_AT_MOST = f"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60){_FRACTION}{_OFFSET}"

_SAME_DAY, _NEXT_DAY = _leap_seconds(range(-12 * 60, 14 * 60 + 1, 60))

#: `date-time`; and with the year 0000 and a leap second at any time.
DATE_TIME = (
    f"(?:{DATE})[Tt]{_TIME}"
    f"|{_YEAR_1_TO_9999}-(?:06-30|12-31)[Tt]{_SAME_DAY}"
    f"|{_YEAR_1_TO_9999}-(?:07-01|01-01)[Tt]{_NEXT_DAY}"
)
DATE_TIME_AT_MOST = f"(?:{DATE_AT_MOST})[Tt](?:{TIME_AT_MOST})"


def _duration() -> str:
    """Appendix A: units in order; one in the middle may be left out only at the ends."""

    def chain(units: str) -> str:
        result = ""
        for unit in reversed(units):
            result = f"[0-9]+{unit}(?:{result})?" if result else f"[0-9]+{unit}"
        return result

    def from_any(units: str) -> str:
        return "(?:" + "|".join(chain(units[start:]) for start in range(len(units))) + ")"

    time = "T" + from_any("HMS")
    return f"P(?:{from_any('YMD')}(?:{time})?|{time}|[0-9]+W)"


DURATION = _duration()

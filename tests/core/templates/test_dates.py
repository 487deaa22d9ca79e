"""Times as Go 1.26 writes and reads them; the expected texts were printed by Go."""

from __future__ import annotations

import time

import pytest

from tenantry.core.templates import engine, errors

AT = 1_753_867_509  # 2025-07-30 09:25:09 UTC, a Wednesday


def render(source: str, data: object = None) -> str:
    return engine.compile(source, "f").render({"at": AT, "d": data})


@pytest.mark.parametrize(
    ("layout", "zone", "expected"),
    [
        ("2006-01-02T15:04:05Z07:00", "UTC", "2025-07-30T09:25:09Z"),
        ("2006-01-02T15:04:05Z07:00", "Asia/Kathmandu", "2025-07-30T15:10:09+05:45"),
        ("Mon, 02 Jan 2006 15:04:05 MST", "Europe/Berlin", "Wed, 30 Jul 2025 11:25:09 CEST"),
        ("Monday January _2 3:4:5PM", "America/New_York", "Wednesday July 30 5:25:9AM"),
        ("06/1/2 03pm -0700 -07 Z0700", "America/New_York", "25/7/30 05am -0400 -04 -0400"),
        ("15:04:05.000 .999 002 __2", "UTC", "09:25:09.000  211 211"),
        ("Janet Monat MST", "America/Sao_Paulo", "Janet Monat -03"),
        ("_2006 20060102", "UTC", "_2025 20250730"),
        ("2006", "Mars/Olympus", "2025"),
        ("2006", "../../etc/passwd", "2025"),
    ],
)
def test_written(layout: str, zone: str, expected: str) -> None:
    assert render(f'{{{{ dateInZone "{layout}" .at "{zone}" }}}}') == expected
    if zone == "UTC":
        assert render(f'{{{{ date "{layout}" .at }}}}') == expected


@pytest.mark.parametrize(
    ("layout", "text", "epoch"),
    [
        ("2006-01-02", "2025-07-30", 1_753_833_600),
        ("2006-01-02T15:04:05Z07:00", "2025-07-30T11:25:09+02:00", AT),
        ("2006-01-02T15:04:05Z07:00", "2025-07-30T09:25:09.5Z", AT),
        ("Mon Jan _2 15:04:05 2006", "wed JUL  30 09:25:09 2025", AT),
        ("3:04PM 2006-1-2", "12:30AM 2025-7-3", 1_751_502_600),
        ("Monday, 02-Jan-06 15:04:05 MST", "Wednesday, 30-Jul-25 09:25:09 UTC", AT),
        ("06", "69", -31_536_000),
    ],
)
def test_read(layout: str, text: str, epoch: int) -> None:
    assert render(f'{{{{ mustToDate "{layout}" "{text}" | unixEpoch }}}}') == str(epoch)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("2006-01-02", "2025-02-29"),
        ("2006-01-02", "2025-13-01"),
        ("2006-01-02", "2025-1-01"),
        ("2006-01-02", "2025-01-01 "),
        ("2006-01-02", ""),
        ("15:04", "24:00"),
        ("2006 3PM", "2025 13PM"),
        ("2006 -0700", "2025 +9900"),
        ("2006 002", "2025 211"),
        ("06 MST", "25 CEETZ"),
    ],
)
def test_what_is_no_time(layout: str, text: str) -> None:
    with pytest.raises(errors.TemplateFailedError, match="line 1:4: mustToDate: "):
        render(f'{{{{ mustToDate "{layout}" "{text}" }}}}')
    assert render(f'{{{{ (toDate "{layout}" "{text}").Year }}}}') == "1"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{{ dateModify "-1h30m" .at | date "15:04" }}', "07:55"),
        ('{{ .at | mustDateModify "1.5s" | date "05.0" }}', "10.5"),
        ('{{ .at | date_modify "soon" | unixEpoch }}', str(AT)),
        ("{{ htmlDate .at }}", "2025-07-30"),
        ('{{ htmlDateInZone .at "Pacific/Auckland" }}', "2025-07-30"),
        ('{{ toDate "2006-01-02" "2025-07-30" }}', "2025-07-30 00:00:00 +0000 UTC"),
        ('{{ toDate "2006-01-02" "2025-07-30" | toJson }}', '"2025-07-30T00:00:00Z"'),
        ('{{ $t := toDate "2006-01-02" "2025-07-30" }}{{ $t.YearDay }} {{ $t.Unix }}', "211 1753833600"),
        ('{{ duration "95" }} {{ duration "-3725" }} {{ duration "0" }} {{ duration "x" }}', "1m35s -1h2m5s 0s 0s"),
        ('{{ durationRound "2h10m5s" }} {{ durationRound "9000h" }} {{ durationRound "" }}', "2h 1y 0s"),
        ("{{ durationRound .d }}", "2mo"),
    ],
)  # fmt: skip
def test_counted(source: str, expected: str) -> None:
    assert render(source, 70 * 24 * 3600 * 10**9) == expected


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('{{ mustDateModify "soon" .at }}', "accepted: 1h30m"),
        ('{{ mustDateModify "9999999999h" .at }}', "up to 292 years"),
        ('{{ date "2006" "2025-07-30" }}', "toDate reads a time from text"),
        ('{{ date "2006" nil }}', "expected a time or seconds since 1970"),
        ('{{ date "2006" true }}', "expected a time or seconds since 1970"),
        ('{{ date "2006" 999999999999999 }}', "years 1 to 9999"),
        ('{{ toDate "2006" "9999" | mustDateModify "2000000h" }}', "years 1 to 9999"),
        ('{{ duration "9999999999999" }}', "up to 292 years"),
        ('{{ date (repeat 300 "2") .at }}', "at most 256 characters"),
        ('{{ mustToDate (repeat 300 "2") "1" }}', "at most 256 characters"),
    ],
)
def test_fails_and_says_what_is_accepted(source: str, says: str) -> None:
    with pytest.raises(errors.TemplateFailedError, match="line 1:") as failed:
        render(source)
    assert says in str(failed.value)


@pytest.mark.parametrize("name", ["now", "ago"])
def test_there_is_no_clock(name: str) -> None:
    with pytest.raises(errors.TemplateRefusedError, match=rf"line 1:16: .*'{name}' is not defined"):
        engine.compile(f'{{{{ if .x }}}} {{{{ {name} | date "2006" }}}}{{{{ end }}}}', "f")


def test_a_layout_of_many_numbers_is_refused_at_once() -> None:
    """Numbers of one or two digits can be split in more ways than there are atoms."""
    began = time.process_time()
    source = '{{ mustToDate (cat (repeat 120 "1") "x" | nospace) (repeat 180 "1") }}'
    with pytest.raises(errors.TemplateFailedError, match="is not a time as"):
        render(source)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "call",
    [
        'date "2006-01-02 15:04:05 Monday January" 5',
        'date (repeat 250 "1") 5',
        'toDate (printf "%d %s" $n (repeat 200 "1")) "2"',
        'toDate (printf "2006 %d" $n) "2025"',
    ],
)
def test_many_dates_are_paid_for(call: str) -> None:
    began = time.process_time()
    with pytest.raises(errors.TemplateLimitError):
        render(f"{{{{ range $n := until 60000 }}}}{{{{ $_ := {call} }}}}{{{{ end }}}}")
    assert time.process_time() - began < 2.0

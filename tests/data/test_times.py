"""Dates and timestamps: one reading of an instant from every source, the time of day kept, no clock guessed at."""

import datetime
import zoneinfo

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import others_slow

from marginalia.data import values
from marginalia.data.coding import as_text, codes_of, original_values
from marginalia.data.column import Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table, write_batches
from marginalia.errors import InputError
from marginalia.learning.units import class_labels, code_values, in_units
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import preprocess
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.quality.charts import code_names

UNITS = ("day", "hour", "minute", "second")
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Eucla", "Pacific/Kiritimati")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def each_day(kind, zone=None):
    """A column with a code for each day of 2024, and one for all other days on both sides."""
    step = 1 if kind["type"] == "date" else values.SECONDS["day"] // values.SECONDS[kind["unit"]]
    first = values.day("2024-01-01")
    edges = tuple(float(step * (first + d)) for d in range(367))
    return Column("t", 366, "numeric", edges=edges, zone=zone, bottom=True, top=True, **kind)


def shuffled(n):
    return np.random.default_rng(0).permutation(n)


@pytest.mark.parametrize("zone", others_slow([None, "Europe/Berlin", "America/New_York"], None, "America/New_York"))
@pytest.mark.parametrize("kind", [{"type": "date"}, *({"type": "timestamp", "unit": unit} for unit in UNITS)])
def test_an_instant_has_one_code_whatever_the_format_of_the_file(tmp_path, kind, zone):
    # Almost all rows were once on another day from Parquet than from CSV where they were written in different zones.
    # Steps of 13 hours meet every hour of the day.
    instants = pd.Series(pd.date_range("2024-01-01 23:30", periods=463, freq="13h", tz="UTC"))[shuffled(463)]
    domain = Domain([each_day(kind, zone)])
    there = zoneinfo.ZoneInfo(zone or "UTC")
    expected = [datetime.datetime.fromtimestamp(i.timestamp(), there).timetuple().tm_yday - 1 for i in instants]
    found = {}
    for shown in ("UTC", "Europe/Berlin", "Asia/Kathmandu"):
        frame = pd.DataFrame({"t": instants.dt.tz_convert(shown).reset_index(drop=True)})
        texts = frame.astype({"t": str})
        frame.to_parquet(tmp_path / "t.parquet")
        texts.to_csv(tmp_path / "t.csv", index=False)
        found[f"frame {shown}"] = Table.from_frame(frame, domain)
        found[f"objects {shown}"] = Table.from_frame(frame.astype({"t": object}), domain)
        found[f"text {shown}"] = Table.from_frame(texts, domain)
        found[f"CSV {shown}"] = Table.read(tmp_path / "t.csv", domain=domain)
        found[f"Parquet {shown}"] = Table.read(tmp_path / "t.parquet", domain=domain)
        found[f"streamed Parquet {shown}"] = Data.parse(tmp_path / "t.parquet").stream(domain).in_memory()
        found[f"streamed CSV {shown}"] = Data.parse(tmp_path / "t.csv").stream(domain).in_memory()
    assert {source for source, table in found.items() if table.codes[:, 0].tolist() != expected} == set()


@pytest.mark.slow
@given(
    st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29)),
    st.sampled_from(UNITS),
    st.sampled_from(ZONES),
    st.sampled_from(ZONES),
)
def test_an_instant_is_shown_as_the_clocks_of_the_zone_show_it(moment, unit, written_in, zone):
    written_there = moment.replace(tzinfo=datetime.UTC).astimezone(zoneinfo.ZoneInfo(written_in))
    clock = written_there.astimezone(datetime.UTC).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
    expected = (clock - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=values.SECONDS[unit])
    for cell in (written_there, written_there.isoformat(), written_there.isoformat(" ")):
        assert values.moment(cell, unit, zone=zone) == expected
    assert values.moment(moment, unit, zone=zone) == values.moment(moment.isoformat(" "), unit)  # naive stays naive
    assert values.iso(values.moment(moment, unit), unit) == moment.isoformat()[
        : {"day": 10, "second": 19}.get(unit, 16)
    ][: 13 if unit == "hour" else None] + (":00" if unit == "hour" else "")


@pytest.mark.parametrize(
    ("cell", "zone", "shown"),
    [
        ("2024-10-27T00:30Z", "Europe/Berlin", "2024-10-27T02:30"),  # the hour that clocks show twice,
        ("2024-10-27T01:30Z", "Europe/Berlin", "2024-10-27T02:30"),  # from two instants
        ("2024-03-31T00:59Z", "Europe/Berlin", "2024-03-31T01:59"),
        ("2024-03-31T01:00Z", "Europe/Berlin", "2024-03-31T03:00"),  # and the one that they skip
        ("2024-03-31 02:30", "Europe/Berlin", "2024-03-31T02:30"),  # naive stays naive, even there
        (datetime.datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=BERLIN), None, "2024-10-27T00:30"),
        (datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN), None, "2024-10-27T01:30"),
        (pd.Timestamp("2024-10-27 00:30Z").tz_convert("Europe/Berlin"), "Europe/Berlin", "2024-10-27T02:30"),
        ("2024-01-31 20:00+00", "Asia/Kathmandu", "2024-02-01T01:45"),
        ("2024-01-31 20:00+00", "Australia/Eucla", "2024-02-01T04:45"),
        ("2024-02-01T01:45:00+05:45", None, "2024-01-31T20:00"),
        ("1900-01-01T00:00:00+00:00", "Europe/Paris", "1900-01-01T00:09"),  # to seconds: +00:09:21
        ("1883-01-01T12:00:00-04:56:02", None, "1883-01-01T16:56"),
        ("9999-12-31T23:59:59Z", None, "9999-12-31T23:59"),
        ("2500-07-01T00:00Z", "Europe/Berlin", "2500-07-01T02:00"),  # a summer beyond 2037
        ("2016-12-31T23:59:60Z", None, "2016-12-31T23:59"),  # a leap second
        ("1969-12-31 23:59:59.999", None, "1969-12-31T23:59"),
        ("2024-01-31 10:00:00 UTC", "Europe/Berlin", "2024-01-31T11:00"),
        ("2024-01-31", "Europe/Berlin", "2024-01-31T00:00"),
        (datetime.date(2024, 1, 31), "Europe/Berlin", "2024-01-31T00:00"),
        (pd.Timestamp("2024-01-31 10:00:00.123456789"), None, "2024-01-31T10:00"),
    ],
)
def test_clocks_that_go_back_leap_or_lie_far_away(cell, zone, shown):
    assert values.iso(values.moment(cell, "minute", zone=zone), "minute") == shown
    assert values.iso(values.day(cell, zone=zone)) == shown[:10]


@pytest.mark.slow
@given(
    st.text("0123456789-+:.,T ZW", max_size=26)
    | st.from_regex(
        r"20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,7})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?",
        fullmatch=True,
    ),
    st.sampled_from(UNITS),
)
def test_the_short_way_of_reading_is_no_other_reading(written, unit):
    def read(how):
        try:
            return how()
        except ValueError as error:
            return str(error)

    if written[10:11] in ("T", " "):  # the short way takes one of them, the long one several
        longer = written[:10] + "T" + " " * 9 + written[11:]
        assert read(lambda: values.moment(written, unit)) == read(lambda: values.moment(longer, unit))


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("2024-01-31 24:00", "has a time of day that no clock shows"),
        ("2024-01-31 10:61", "has a time of day that no clock shows"),
        ("2024-01-31 10:00+24:00", "has a time of day that no clock shows"),
        ("2024-01-31 10:00 CET", "is not a date"),  # which of three zones?
        ("2024-01-31Z", "is not a date"),
        ("2024-02-30 10:00", "is not a date"),
        ("2024-01-31 1:00 PM", r'is not a date in ISO form .*: declare `format: "%Y-%m-%d %I:%M %p"`'),
        ("2024/01/31", 'declare `format: "%Y/%m/%d"`'),
        ("Jan 31, 2024", 'declare `format: "%b %d, %Y"`'),
        ("31.01.2024", 'declare `format: "%d.%m.%Y"`'),
        ("03/04/2024 10:00", 'declare `format: "%d/%m/%Y %H:%M" or "%m/%d/%Y %H:%M"`'),
        ("31.01.24", "is not a date$"),
        ("Jann 31, 2024", "is not a date$"),
        ("0001-01-01T00:00+14:00", "is a date outside the years 1 to 9999"),
        (pd.Timestamp(np.datetime64("12000-01-01", "s")), "is a date outside the years 1 to 9999"),
        (pd.Timestamp(np.datetime64("-0044-03-15", "s")), "is a date outside the years 1 to 9999"),
        ("infinity", "is a date outside the years 1 to 9999"),
    ],
)
def test_what_no_clock_shows_is_refused(cell, why):
    with pytest.raises(ValueError, match=why):
        values.moment(cell, "minute")


ANY_CELL = st.one_of(
    st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)),
    st.datetimes(timezones=st.sampled_from([zoneinfo.ZoneInfo(zone) for zone in ZONES])),
    st.dates(),
    st.sampled_from(["x", "2024-01-31 25:00", "03/04/2024", "refused", "?", None, pd.NaT, 7, "infinity"]),
).flatmap(lambda cell: st.sampled_from([cell, cell if cell is None or cell is pd.NaT else str(cell)]))


@pytest.mark.slow
@given(st.lists(ANY_CELL, min_size=1, max_size=6), st.integers(0, 99), st.sampled_from(UNITS), st.sampled_from(ZONES))
def test_the_code_of_a_time_is_that_of_its_cell_alone_and_what_is_drawn_has_it_again(cells, seed, unit, zone):
    step = values.SECONDS["day"] // values.SECONDS[unit]
    edges = tuple(float(step * values.day(d) + 5 * (unit != "day")) for d in ("1700-01-01", "1990-06-01", "2030-01-01"))
    time = Column(
        "t",
        4,
        "numeric",
        edges=edges,
        type="timestamp",
        unit=unit,
        zone=zone,
        bottom=True,
        top=True,
        missing=("?",),
        lenient=True,
        special=("refused",),
    )
    codes, faults = codes_of(pd.Series(cells, dtype=object), time)
    assert not faults
    assert codes.tolist() == [int(codes_of(pd.Series([cell], dtype=object), time)[0][0]) for cell in cells]
    drawn = original_values(codes, time, np.random.default_rng(seed))
    assert codes_of(drawn, time)[0].tolist() == codes.tolist()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("format", [None, "%d/%m/%Y %H:%M:%S"])
def test_a_table_of_times_is_written_as_iso_and_reads_back(tmp_path, unit, format):
    shown = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H:00", "minute": "%Y-%m-%dT%H:%M", "second": "%Y-%m-%dT%H:%M:%S"}
    ends = ["2024-03-30T00:00", "2024-04-01T00:00", "2024-04-03T00:00"]
    facts = {"name": "t", "type": "timestamp", "unit": unit, "zone": "Europe/Berlin", "edges": ends, "missing": []}
    domain = Domain.from_dict({"attributes": [facts if format is None else {**facts, "format": format}]})
    assert Domain.from_dict(domain.to_dict()) == domain
    table = Table(np.array([[0, 1, 2] * 50]).T, domain)
    table.to_csv(tmp_path / "t.csv", random_state=1)
    table.to_parquet(tmp_path / "t.parquet", random_state=1)
    write_batches([table, table], domain, tmp_path / "twice.csv", random_state=1)
    write_batches([table, table], domain, tmp_path / "twice.parquet", random_state=1)
    assert Table.read(tmp_path / "t.csv", domain=domain) == table == Table.read(tmp_path / "t.parquet", domain=domain)
    for name in ("twice.csv", "twice.parquet"):
        assert Table.read(tmp_path / name, domain=domain) == table.append(table)
    raw = pd.read_csv(tmp_path / "t.csv")["t"]
    for text in raw[::3]:
        assert datetime.datetime.strptime(text, format or shown[unit])
    kind = pq.read_schema(tmp_path / "t.parquet").field("t").type
    assert pa.types.is_timestamp(kind)
    assert kind.tz is None
    frame = table.to_frame(original=True, random_state=1)
    seconds = frame["t"].dropna().to_numpy().astype("datetime64[s]").astype(np.int64)
    assert not (seconds % values.SECONDS[unit]).any()
    if unit != "day":
        assert (seconds % 86_400).any()  # the time of day is drawn too
    assert frame["t"].isna().tolist() == [False, False, True] * 50


def attribute(**facts):
    return Domain.from_dict({"attributes": [{"name": "t", **facts}]})["t"]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {"type": "timestamp", "edges": ["2024-01-01", "2024-02-01"]},
            "a timestamp needs its 'unit': day, hour, minute",
        ),
        ({"type": "timestamp", "labels": ["2024-01-01"]}, "a timestamp needs its 'unit'"),
        ({"type": "timestamp", "unit": "week", "labels": ["2024-01-01"]}, "unknown unit 'week'; known: day"),
        ({"type": "timestamp", "unit": ["day"], "labels": ["2024-01-01"]}, "unit: input should be 'day', 'hour'"),
        ({"type": "date", "unit": "day", "labels": ["2024-01-01"]}, "'unit' is for timestamps"),
        ({"type": "integer", "zone": "UTC", "labels": ["1"]}, "'zone' is for dates and timestamps"),
        (
            {"type": "date", "zone": "Berlin", "labels": ["2024-01-01"]},
            "zone 'Berlin' is no zone of the IANA data base",
        ),
        ({"type": "date", "zone": "europe/berlin", "labels": ["2024-01-01"]}, "is no zone"),
        ({"type": "date", "zone": "localtime", "labels": ["2024-01-01"]}, "is no zone"),  # each machine's own
        ({"type": "date", "zone": "../UTC", "labels": ["2024-01-01"]}, "is no zone"),
        ({"type": "timestamp", "unit": "hour", "edges": ["2024-01-01T10:30", "2024-01-02"]}, "begins no whole hour"),
        ({"type": "timestamp", "unit": "hour", "labels": ["2024-01-01T10:30"]}, "begins no whole hour"),
        ({"type": "timestamp", "unit": "day", "edges": [1, 2]}, "edge '1' is not a date"),
        (
            {"type": "timestamp", "unit": "second", "edges": ["2024-01-01", "2024-01-02"], "format": "%d.%m.%Y %H:%M"},
            "gives no day, month, year and time to the second",
        ),
        (
            {"type": "timestamp", "unit": "second", "labels": "private"},
            "only edges of timestamps can be learned",
        ),
        ({"type": "timestamp", "unit": "hour", "labels": ["2024-01-01T10", "2024-01-01 10:00"]}, "is not a date"),
    ],
)
def test_what_a_domain_cannot_mean_is_refused_in_one_line(facts, why):
    with pytest.raises(InputError, match=why):
        Domain.from_dict({"attributes": [{"name": "t", **facts}]}).placeholder()


def test_edges_and_labels_of_times_are_iso_in_the_zone_of_the_domain():
    facts = {"type": "timestamp", "unit": "hour", "zone": "Europe/Berlin"}
    time = attribute(**facts, edges=["2024-06-30T22:00Z", "2024-07-01T06:00", datetime.datetime(2024, 7, 2, 0)])
    again = Domain([time]).to_dict()["attributes"][0]
    assert again["edges"] == ["2024-07-01T00:00", "2024-07-01T06:00", "2024-07-02T00:00"]
    assert (again["unit"], again["zone"]) == ("hour", "Europe/Berlin")
    labelled = attribute(**facts, labels=["2024-07-01T06:00", "2024-07-01 05:00Z"])
    assert codes_of(pd.Series(["2024-07-01T04:10:00+00:00", "2024-07-01 07:59"]), labelled)[0].tolist() == [0, 1]
    with pytest.raises(InputError, match="outside the bins from 2024-07-01T00:00 to 2024-07-02T00:00"):
        Table.from_frame(pd.DataFrame({"t": ["2024-07-02"]}), Domain([time]))


def test_equal_bins_of_dates_keep_their_codes_through_a_file():
    # 2.25 days after the first edge was once written as two.
    date = attribute(type="date", edges={"bins": 4, "bounds": ["2024-01-01", "2024-01-10"]})
    again = Domain.from_dict(Domain([date]).to_dict())["t"]
    days = pd.Series(pd.date_range("2024-01-01", "2024-01-09"))
    assert codes_of(days, again)[0].tolist() == codes_of(days, date)[0].tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    loose = date.replace(edges=(0.0, 2.25, 4.5, 6.75, 9.0))
    assert Domain.from_dict(Domain([loose]).to_dict())["t"].edges == (0, 3, 5, 7, 9)


@pytest.mark.parametrize("rule", others_slow(["adaptive", "quantile", "uniform"]))
@pytest.mark.parametrize("unit", others_slow(UNITS, "day"))
@pytest.mark.parametrize("bounds", [None, ["2024-01-01T00:00", "2025-01-01T00:00"]])
def test_edges_of_times_are_learned(unit, rule, bounds):
    instants = pd.Series(pd.date_range("2024-02-01 08:00", periods=4000, freq="37min", tz="Europe/Berlin"))
    cells = [*instants.astype(str), "x", "refused", None, pd.NaT, "9999-12-31T23:59:59-12:00", datetime.date(1, 1, 1)]
    learned = {"private": rule, "bins": 6} if bounds is None else {"private": rule, "bins": 6, "bounds": bounds}
    facts = {"name": "t", "type": "timestamp", "unit": unit, "zone": "Europe/Berlin", "special": ["refused"]}
    schema = Domain.from_dict({"attributes": [{**facts, "edges": learned}]})
    assert Domain.from_dict(schema.to_dict()).to_dict() == schema.to_dict()
    ledger = Ledger("add_remove", epsilon=50.0, delta=1e-5)
    domain, table = preprocess(pd.DataFrame({"t": cells}), schema, session=Session(ledger, Randomness(0)))
    time = domain["t"]
    assert (time.unit, time.zone, time.special, time.texts[-2:]) == (
        unit,
        "Europe/Berlin",
        ("refused",),
        ("refused", "missing"),
    )
    assert Domain.from_dict(domain.to_dict())["t"] == time
    counts = table.counts(["t"])
    assert counts[-2:].tolist() == [1, 4]  # the instant beyond year 9999 cannot be shown, and so is missing
    assert counts.sum() == len(cells)
    drawn = table.to_frame(original=True, random_state=0)
    assert Table.from_frame(drawn, domain) == table


def test_private_preprocessing_of_times_counts_no_special_cell_as_a_value():
    column = Column("t", type="timestamp", unit="hour", special=("refused",), private=PrivateBins("uniform", 4))
    assert column.counted_in == "hour"
    assert column.placeholder().special_codes == range(1, 2)


def test_the_rules_of_all_zones_come_with_the_library():
    some = {"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Argentina/Buenos_Aires", "Etc/GMT-14"}
    assert all(values.zone_rules(zone).utcoffset(datetime.datetime(2024, 1, 1)) is not None for zone in some)
    assert values.zone_rules("Asia/Kathmandu").utcoffset(datetime.datetime(2024, 1, 1)) == datetime.timedelta(
        minutes=345
    )


def test_a_csv_file_of_times_is_read_as_text(tmp_path):
    (tmp_path / "t.csv").write_text("t\n2024-07-01T12:00:00+02:00\n2024-07-01 12:00\n")
    assert codes_of(
        read_raw(tmp_path / "t.csv")["t"],
        attribute(type="timestamp", unit="hour", labels=["2024-07-01T10:00", "2024-07-01T12:00"]),
    )[0].tolist() == [0, 1]


def test_models_and_pages_show_times_in_their_unit():
    ends = ["2024-01-01T00:00", "2024-01-01T10:00", "2024-01-02T00:00"]
    time = attribute(type="timestamp", unit="hour", edges=ends, top=True)
    assert class_labels(time).tolist() == [
        "[2024-01-01T00:00, 2024-01-01T10:00)",
        "[2024-01-01T10:00, 2024-01-02T00:00)",
    ]
    first = values.moment("2024-01-01", "hour")
    assert code_values(time).tolist() == [first + 4.5, first + 16.5]
    shown = in_units(np.array([-1.0, 0.0, 9.0]), time)
    assert np.datetime_as_string(shown).tolist() == [
        "2024-01-01T04:00:00",
        "2024-01-01T10:00:00",
        "2024-01-01T16:00:00",
    ]
    labelled = attribute(type="timestamp", unit="hour", labels=ends[:2])
    assert np.datetime_as_string(class_labels(labelled), unit="h").tolist() == ["2024-01-01T00", "2024-01-01T10"]
    assert code_names(time) == ["2024-01-01T00:00 to 2024-01-01T10:00", "2024-01-01T10:00 and above"]


@pytest.mark.parametrize("engine_zone", ["UTC", "Asia/Kathmandu"])
def test_a_database_shows_instants_as_a_file_does(tmp_path, engine_zone):
    with duckdb.connect(tmp_path / "t.db") as base:
        base.execute(f"SET TimeZone = '{engine_zone}'")
        base.execute(
            "CREATE TABLE t AS SELECT '2024-01-31 23:30:00+00'::TIMESTAMPTZ AS t, '2024-01-31 23:30'::TIMESTAMP AS n"
        )
    facts = {"type": "timestamp", "unit": "minute", "zone": "Europe/Berlin"}
    labels = ["2024-01-31T23:30", "2024-02-01T00:30"]
    domain = Domain.from_dict({"attributes": [{"name": name, **facts, "labels": labels} for name in "tn"]})
    assert Data.parse(f"duckdb:///{tmp_path}/t.db?table=t").stream(domain).in_memory().codes.tolist() == [[1, 0]]


# --- digits alone, and years of two digits ---


@pytest.mark.parametrize(
    ("format", "text", "iso"),
    [
        ("%Y%m%d", "20240131", "2024-01-31"),
        ("%d%m%Y", "31012024", "2024-01-31"),
        ("%d%m%Y", "1012024", "2024-01-01"),  # the zero is lost where a program read a number
        ("%m%d%Y", "1312024", "2024-01-31"),
        ("%d%m%y", "10124", "2024-01-01"),
        ("%Y%m%d%H%M", "202401310830", "2024-01-31"),
    ],
)
def test_digits_are_a_date_by_their_format(format, text, iso):
    for value in (text, int(text)):
        assert values.day(value, format, pivot=1950 if "%y" in format else None) == values.day(iso)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%Y%m%d", "2024131"),
        ("%Y%m%d", "1990101"),
        ("%d%m%Y", "112024"),
        ("%d%m%Y", "003112024"),
        ("%d%m%y", "112024a"),
    ],
)
def test_digits_of_another_number_are_no_date(format, text):
    """`strptime` takes 1990101 for 1 October 1990."""
    with pytest.raises(ValueError, match="is not a date of format"):
        values.day(text, format)


@pytest.mark.parametrize(("pivot", "year"), [(1900, 1924), (1924, 1924), (1925, 2024), (1969, 2024), (2000, 2024)])
def test_a_pivot_gives_years_of_two_digits_their_century(pivot, year):
    assert values.iso(values.day("31.01.24", "%d.%m.%y", pivot=pivot)) == f"{year}-01-31"
    bins = {"edges": [f"{pivot}-01-01", f"{pivot + 50}-01-01", f"{pivot + 100}-01-01"]}
    born = Column.from_dict({"name": "born", "type": "date", "format": "%d.%m.%y", "pivot": pivot, **bins})
    codes, problems = codes_of(
        pd.Series(["31.01.24", f"01.01.{pivot % 100:02d}", f"31.12.{(pivot - 1) % 100:02d}"]), born
    )
    assert (codes.tolist(), problems) == ([int(year >= pivot + 50), 0, 1], [])
    drawn = original_values(np.array([0, 1] * 50), born, np.random.default_rng(0))
    assert codes_of(as_text(drawn, born), born)[0].tolist() == [0, 1] * 50


def test_a_day_that_the_century_does_not_have_is_no_date():
    assert values.iso(values.day("29.02.00", "%d.%m.%y", pivot=1950)) == "2000-02-29"
    with pytest.raises(ValueError, match="is not a date of format"):
        values.day("29.02.00", "%d.%m.%y", pivot=1850)

"""URLs of tables in databases: read strictly, shown without credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from marginalia.errors import InputError, unknown_name

ENGINES = ("duckdb", "postgresql", "spark")
FORM = "duckdb:///FILE?table=NAME, postgresql://HOST/DATABASE?table=SCHEMA.NAME or spark://MASTER?table=NAME"
_PASSWORD = re.compile(r"(password|passwd|pwd)\s*=", re.IGNORECASE)
_PARTS = re.compile(r"(?P<engine>[a-z][a-z0-9+.-]*)://(?P<place>[^?]*)\?(?P<kind>table|query)=(?P<text>.+)", re.DOTALL)
_SERVER = re.compile(
    r"((?P<user>[^@/:]+)@)?(?P<host>\[[0-9a-fA-F:]+\]|[^@/:\[\]]*)(:(?P<port>\d{1,5}))?(/(?P<name>[^/]+))?/?"
)


@dataclass(frozen=True)
class Location:
    """Where a table or the rows of a query lie.

    Attributes
    ----------
    engine : {"duckdb", "postgresql", "spark"}
    place : str
        The file, the server and its database, or Spark's master; "" as the engine's own environment says.
    kind : {"table", "query"}
    text : str
        The name of the table, which may follow that of its schema and a dot; or a SELECT.
    user : str
    host, port, database : str
        Of PostgreSQL; "" where its environment (PGUSER, PGHOST, PGPORT, PGDATABASE) says.

    >>> Location.parse("postgresql://ann@db.example/clinic?table=ward.stays")
    Location(postgresql://db.example/clinic?table=ward.stays)
    """

    engine: str
    place: str
    kind: Literal["table", "query"]
    text: str
    user: str = ""
    host: str = ""
    port: str = ""
    database: str = ""

    def __str__(self) -> str:
        return f"{self.engine}://{self.place}?{self.kind}={self.text}"

    def __repr__(self) -> str:
        return f"Location({self})"

    @classmethod
    def parse(cls, url: str) -> Location:
        """Read a URL; what stands after ``?table=`` or ``?query=`` is taken as it is, without escapes.

        Raises
        ------
        InputError
            It is no such URL, or it holds a password. The message never repeats the URL, which may hold a secret.
        """
        engine = url.partition("://")[0]
        if engine not in ENGINES:
            raise unknown_name("kind of database", engine if engine.isalnum() else "", ENGINES)
        place = re.split(r"\?(?:table|query)=", url.partition("://")[2], maxsplit=1)[0]
        if ":" in place.rpartition("@")[0] or _PASSWORD.search(url):
            raise InputError(
                "a password inside a URL is refused, as lists of processes and logs show it; give it in the "
                "environment of the engine (PostgreSQL: PGPASSWORD, or a password file)"
            )
        parts = _PARTS.fullmatch(url)
        if parts is None:
            raise InputError(f"this {engine} URL names no table; write {FORM} (or ?query=SELECT ...)")
        place, kind, text = parts["place"], parts["kind"], parts["text"].strip().rstrip(";")
        if kind == "table" and not (all(text.split(".")) and text.count(".") <= 2):
            raise InputError(f"'{text}' is no name of a table; write NAME, SCHEMA.NAME or ?query=SELECT ...")
        if engine != "postgresql":
            return cls(engine, place, kind, text)  # type: ignore[arg-type]
        server = _SERVER.fullmatch(place)
        if server is None:
            raise InputError("this postgresql URL names no server; write postgresql://HOST:PORT/DATABASE?table=NAME")
        user, host, port, name = (server[part] or "" for part in ("user", "host", "port", "name"))
        shown = host + (f":{port}" if port else "") + (f"/{name}" if name else "")
        return cls(engine, shown, kind, text, user, host.strip("[]"), port, name)  # type: ignore[arg-type]

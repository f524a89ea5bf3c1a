"""Validate RO-Crates without a network: ``python validate_crate.py LEVEL FOLDER...``; prints what is amiss, by line.

The terms of RO-Crate are read from the copy in the package `rocrate` instead of w3id.org; whether the addresses of
inputs answer is not asked.
"""

import json
import sys
from pathlib import Path

import rdflib.plugins.shared.jsonld.context as context
import requests
import rocrate
from rocrate_validator import models, services

TERMS = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text(encoding="utf-8"))
PLACE = "https://w3id.org/ro/crate/"
ask, load = requests.Session.request, context.source_to_json


def request(self, method, url, **options):
    """Answer for the place of the terms."""
    if not url.startswith(PLACE):
        return ask(self, method, url, **options)
    answer = requests.Response()
    answer.status_code, answer.url, answer._content = 200, url, json.dumps(TERMS).encode()
    answer.headers["Content-Type"] = "application/ld+json"
    return answer


def source_to_json(source, *arguments, **options):
    """Read the terms where they would be fetched."""
    return (TERMS, None) if str(source).startswith(PLACE) else load(source, *arguments, **options)


requests.Session.request, context.source_to_json = request, source_to_json
level, *folders = sys.argv[1:]
for folder in folders:
    settings = services.ValidationSettings(
        rocrate_uri=folder,
        profile_identifier="process-run-crate",
        skip_availability_check=True,
        abort_on_first=False,
        requirement_severity=getattr(models.Severity, level),
    )
    result = services.validate(settings)
    for issue in result.get_issues():
        print(folder, issue.check.identifier, issue.message)
    print(folder, len(result.executed_checks), "checks")

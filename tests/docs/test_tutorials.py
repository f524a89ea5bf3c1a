"""Quick start and tutorials: their commands run in their order, and print what stands there, digits apart."""

import re
from pathlib import Path

import pandas as pd
import pytest
from printed import commands, printed_as

from marginalia.data.datasets import unreachable_reason
from marginalia.reporting.formats import read_csv, wide
from marginalia.sweep import config

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S)


def console(page):
    return [pair for language, text in blocks(page) if language == "console" for pair in commands(text)]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["quickstart.md", "error-bars.md"])
def test_a_page_runs_as_it_is_printed(page, follow, request):
    if page == "error-bars.md" and any(map(unreachable_reason, ("hi", "hdma"))):
        request.getfixturevalue("mirror")
    for command, printed in console(page):
        follow(command, printed)
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page, "exec"), {})


EXAMPLES = blocks("../README.md")[2:]  # after the two commands that install


def test_examples_of_the_readme_are_short():
    for language, text in EXAMPLES:
        assert language == "text" or text.count("\n") <= 6


@pytest.mark.slow
@pytest.mark.time_limit(1800)
def test_the_readme_runs_as_it_is_printed(follow):
    """In its order; of the sweep this is the plan, which a test of the page about own methods runs."""
    out = ""
    for language, text in EXAMPLES:
        if language == "text":
            assert printed_as(text, out), out
        elif language == "python":
            exec(compile(text, "README.md", "exec"), {})
        else:
            commands = [line for line in text.replace("\\\n", " ").splitlines() if line != ". .venv/bin/activate"]
            out = "".join(follow(command.replace("snakemake", "marginalia plan"), "") for command in commands)


@pytest.mark.slow
def test_the_figure_is_planned_as_printed(follow, repository, mirror):
    """The rest, which takes a minute, is below."""
    ((_, text),) = [block for block in blocks("rerun-a-figure.md") if block[0] == "yaml"]
    (repository / "figure.yaml").write_text(text)
    assert config.read("figure.yaml").results_dir == "results/figure"
    follow(*console("rerun-a-figure.md")[0])


@pytest.mark.slow
def test_the_figure_is_that_of_the_page(follow, repository, mirror):
    """Seeded: every digit of the table."""
    ((_, text),) = [block for block in blocks("rerun-a-figure.md") if block[0] == "yaml"]
    (repository / "figure.yaml").write_text(text)
    (line,) = [text for language, text in blocks("rerun-a-figure.md") if language == "sh"]
    follow(line.strip(), "")
    _, table = console("rerun-a-figure.md")[1]
    shown = wide(read_csv(repository / "results" / "figure" / "tables" / "auc.csv")).to_string(index=False)
    assert [line.rstrip() for line in shown.splitlines()] == table.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, pytest.param(1, marks=pytest.mark.slow)])  # of the second, ten seconds
def test_the_cluster_is_asked_as_printed(follow, step, mirror):
    """Without a Slurm server: the dry run of the profile; .ci/slurm_single_node.sh has one."""
    follow(*console("cluster.md")[step])


def test_the_pages_of_tutorials_say_what_a_command_prints():
    """A page whose output is another one is refused."""
    assert printed_as("certificate: (1, 1e-05)-DP\n...\nend 3\n", "certificate: (1, 1e-05)-DP\nx\ny\nend 4\n")
    assert printed_as("...\nend\n", "end\n")
    assert not printed_as("certificate: (1, 1e-05)-DP\n", "certificate: (1, 1e-05)-DP\nmore\n")
    assert not printed_as("a 1\n...\nb\n", "a 1\nc\n")


def test_the_pictures_of_error_bars_are_those_of_their_numbers_and_of_the_page():
    found = pd.read_csv(DOCS / "error-bars-figure.csv").set_index(["table", "fit", "coefficient"])
    true = found["estimate"].xs("the table", level="fit")
    holds = {}
    for (table, fit), part in found.groupby(level=["table", "fit"]):
        of = part.droplevel(["table", "fit"])
        holds[table, fit.partition(",")[0]] = int(((of["low"] <= true[table]) & (true[table] <= of["high"])).sum())
    assert holds.pop(("hours", "the table")) == holds.pop(("denials", "the table")) + 4 == 8
    assert holds == {("hours", "private"): 8, ("hours", "naive"): 2, ("denials", "private"): 4, ("denials", "naive"): 4}
    shown = (DOCS / "error-bars.md").read_text()
    for table, name in (("hours", "hhi[T.yes]"), ("denials", "black[T.yes]")):
        first = next(line for line in shown.splitlines() if line.startswith(name)).split()
        drawn = found.loc[table, "private, 95 % interval", name]
        assert [float(first[k]) for k in (1, 4, 5)] == pytest.approx(drawn.tolist(), rel=1e-4)


def test_private_intervals_hold_where_naive_ones_miss():
    """Of 20 releases each, whose coefficients depend on each other: hence .8, not .95."""
    found = pd.read_csv(DOCS / "error-bars-real.csv")
    assert (found["held"] >= 0.8).all()
    assert found["naive_held"].min() < 0.5

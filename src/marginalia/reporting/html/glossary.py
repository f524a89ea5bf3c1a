"""The terms of the page: what each means, and the links to them in running text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True, slots=True)
class Term:
    """One entry."""

    id: str
    name: str
    meaning: str
    pattern: str  # how it stands in running text

    @property
    def link(self) -> str:
        """The id of its element."""
        return f"term-{self.id}"


TERMS = (
    Term(
        "epsilon",
        "ε (epsilon)",
        "The privacy budget. The smaller, the less the output can change when one row of the private table "
        "changes: the probability of any output changes by at most a factor of exp(ε), up to δ.",
        r"(?<!certified )(?<!of the requested )(?<!requested )ε(?= )",
    ),
    Term(
        "delta",
        "δ (delta)",
        "How far the promise of ε may fail, as a probability. It must be far smaller than one in the number of rows.",
        r"δ",
    ),
    Term(
        "certified",
        "Certified ε",
        "The ε that follows from the list of everything a run released, recomputed by an accountant at the "
        "same δ. A setting is certified if it is at most the ε that was asked for.",
        r"[Cc]ertified(?: ε)?|certificates?",
    ),
    Term(
        "claimed",
        "Claimed ε",
        "The word of the author of a method from another library: its releases are not seen here, so nothing "
        "is certified.",
        r"claimed?(?= ε|\b)|author’s word",
    ),
    Term(
        "method",
        "Method",
        "An algorithm, with its variant, calibration and relation where a table or figure has several of them.",
        r"(?<=private )methods?\b",
    ),
    Term(
        "private",
        "Private method",
        "A method whose output is differentially private: it adds noise, so that the output tells little of "
        "any single row.",
        r"(?:differentially )?private methods?",
    ),
    Term(
        "calibration",
        "Calibration",
        "How the noise follows from ε. Tight: the least noise that the accountant allows. Published: the "
        "formula of the method’s paper, which may add more noise or spend more than ε.",
        r"[Cc]alibrations?",
    ),
    Term(
        "relation",
        "Neighbours",
        "The two tables that must look alike. Add/remove: they differ in one row more or less. Replace-one: "
        "in the contents of one row, and the number of rows is public.",
        r"neighbou?rs?(?!ing)|neighbouring relation",
    ),
    Term(
        "setting",
        "Setting",
        "A data set, target, method and ε; of a winner: a data set, target and ε.",
        r"settings?\b",
    ),
    Term(
        "trial",
        "Trial",
        "One repetition of a setting, with noise of its own and, where the split is random, a split of its own.",
        r"trials?\b",
    ),
    Term(
        "stderr",
        "Standard error",
        "The standard deviation over trials, divided by the root of their number: how far the mean may be off "
        "by chance.",
        r"standard errors?",
    ),
    Term(
        "auc",
        "AUC",
        "Area under the receiver operating characteristic on test rows: how often a row of the class scores "
        "above one that is not. 1 is perfect, 0.5 is guessing.",
        r"(?:test )?AUC",
    ),
    Term(
        "mse",
        "MSE",
        "Mean squared error on test rows, the target scaled to [−1, 1]. Lower is better.",
        r"(?:test )?MSE",
    ),
    Term(
        "risk",
        "Log-loss",
        "Mean logistic loss on test rows. Lower is better.",
        r"(?:test )?log-loss",
    ),
    Term(
        "accuracy",
        "Accuracy",
        "Share of test rows whose class is predicted.",
        r"(?:test )?accuracy",
    ),
    Term(
        "marginal",
        "Marginal error",
        "Half the L1 distance between the shares of rows in each cell, of synthetic and real rows, averaged "
        "over the workload of marginals. 0: the same; 1: nothing in common.",
        r"[Mm]arginal error",
    ),
    Term(
        "k-marginal",
        "k-marginal score",
        "1000 times one minus the mean error over pairs of columns, as NIST computes it. Higher is better.",
        r"k-marginal score",
    ),
    Term(
        "trivial",
        "Trivial predictor",
        "Predicts the same for every row and looks at no attribute: what any method must beat.",
        r"trivial predictors?",
    ),
    Term(
        "gain",
        "Share of the non-private gain",
        "How much of the way from the trivial predictor (0) to the best predictor without privacy (1) a "
        "method keeps: (value − trivial) / (non-private − trivial).",
        r"[Ss]hare of the non-private gain",
    ),
    Term(
        "synthetic",
        "Synthetic table",
        "Made-up rows with the columns of the private table, drawn from a private model of it.",
        r"[Ss]ynthetic (?:tables?|rows|data)",
    ),
    Term(
        "split",
        "Split",
        "Which rows are for training and which for the test. Random: a new one for each trial. Released: the "
        "one that the authors of the data published, the same in every trial.",
        r"splits?\b",
    ),
)
_ANY = re.compile("|".join(f"(?P<t{place}>{term.pattern})" for place, term in enumerate(TERMS)))


def explain(text: str) -> Markup:
    """Return a text with a link from the first mention of each term to its entry."""
    seen: set[int] = set()

    def link_term(found: re.Match[str]) -> str:
        place = next(i for i in range(len(TERMS)) if found[f"t{i}"] is not None)
        if place in seen:
            return found.group()
        seen.add(place)
        return f'<a class="term" href="#{TERMS[place].link}">{found.group()}</a>'

    return Markup(_ANY.sub(link_term, str(escape(text))))

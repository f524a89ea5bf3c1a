"""Which methods exist, in which arms they are compared, and how each is built."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from marginalia.errors import InputError, unknown_name

Kind = Literal["learner", "synthesizer", "downstream"]
NON_PRIVATE = "none"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run a method: a line in a figure.

    Attributes
    ----------
    method : str
        Method id.
    calibration : {"tight", "published", "corrected", "none"}
    variant : str
        Set of constants, or the marginal source of a method that post-processes one.
    tasks : tuple of str
        The tasks this arm can do; empty for a synthesizer.
    source : str
        Id of the synthesizer whose fit this arm post-processes, or empty.
    learner : str
        Public learner trained on synthetic rows (``ols`` or ``logistic``), or empty.
    parameters : tuple of (str, value)
        Passed to the class.
    tuned_on_test : bool
        Hyper-parameters are chosen on the test rows, as papers have done: not private at any epsilon, and run under
        ``as_published`` only.
    """

    method: str
    calibration: str = "tight"
    variant: str = ""
    tasks: tuple[str, ...] = ()
    source: str = ""
    learner: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    tuned_on_test: bool = False

    @property
    def is_private(self) -> bool:
        """Whether the arm has a privacy budget."""
        return self.calibration != NON_PRIVATE

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Arm:
        """Return the arm that ``dataclasses.asdict`` turned into `content`, after a way through JSON."""
        parameters = tuple((k, tupled(v)) for k, v in content["parameters"])
        return cls(**{**content, "tasks": tuple(content["tasks"]), "parameters": parameters})


@dataclass(frozen=True, slots=True)
class Method:
    """A method id, the classes behind it, and its arms.

    Attributes
    ----------
    id : str
    kind : {"learner", "synthesizer", "downstream"}
        ``downstream`` methods fit nothing private themselves: they post-process a synthesizer.
    classes : mapping of task to import path
        ``module:Class``; a synthesizer's single class stands under ``""``.
    arms : tuple of Arm
        What the id alone stands for in a configuration.
    named : tuple of Arm
        Further arms, slow or not private, that a configuration gets by naming their variant.
    relations : tuple of str
        Neighbouring relations with a privacy proof.
    slow : bool
        One job for each epsilon, instead of one job for all.
    about : str
    """

    id: str
    kind: Kind
    classes: Mapping[str, str]
    arms: tuple[Arm, ...]
    relations: tuple[str, ...] = ("add_remove", "replace_one")
    slow: bool = False
    about: str = ""
    named: tuple[Arm, ...] = ()

    def load(self, task: str = "") -> type:
        """Import and return the class for `task`."""
        try:
            path = self.classes[task]
        except KeyError:
            raise InputError(
                f"method '{self.id}' has no {task or 'synthesizer'} form; it does {', '.join(self.classes)}"
            ) from None
        module, name = path.split(":")
        if module.endswith(".py"):
            return class_from_file(Path(module), name)
        return getattr(importlib.import_module(module), name)


_BOTH = ("linear", "logistic")


def _trained_on_rows_of(source: str, method: str | None = None) -> tuple[Arm, ...]:
    """Return the arms that train a public learner on the synthetic rows of `source`."""
    return tuple(
        Arm(method or source, variant="" if method else learner, tasks=(task,), source=source, learner=learner)
        for task, learner in (("linear", "ols"), ("logistic", "logistic"))
    )


def _synthesizer(method: str, path: str, about: str, *, slow: bool = False, downstream: bool = True) -> Method:
    arms = (Arm(method), *(_trained_on_rows_of(method) if downstream else ()))
    return Method(method, "synthesizer", {"": path}, arms, slow=slow, about=about)


_LEARNING = "marginalia.learning"
_SYNTHESIS = "marginalia.synthesis"
_PAPERS_REDUCED_SPACE = (
    ("family", "monomials"),
    ("measure", "uniform"),
    ("sampling", "iid"),
    ("solution", "lp"),
    ("space", "sampled"),
)
_EXCESS_RISK_DP_SGD = (
    ("clip", 1.0),
    ("decay", 0.1),
    ("fit_intercept", True),
    ("inputs", "codes"),
    ("learning_rate", 5.0),
    ("steps", 500),
)

BUILT_IN: dict[str, Method] = {
    m.id: m
    for m in (
        Method(
            "trivial",
            "learner",
            {"linear": f"{_LEARNING}:TrivialRegressor", "logistic": f"{_LEARNING}:TrivialClassifier"},
            (Arm("trivial", NON_PRIVATE, tasks=_BOTH),),
            about="predicts 0: the level any method must beat",
        ),
        Method(
            "ols",
            "learner",
            {"linear": f"{_LEARNING}:OLSRegressor"},
            (Arm("ols", NON_PRIVATE, tasks=("linear",)),),
            about="least squares without privacy",
        ),
        Method(
            "logistic",
            "learner",
            {"logistic": f"{_LEARNING}:LogisticClassifier"},
            (Arm("logistic", NON_PRIVATE, tasks=("logistic",)),),
            about="logistic regression without privacy",
        ),
        Method(
            "ssp",
            "learner",
            {"linear": f"{_LEARNING}:SSPRegressor", "logistic": f"{_LEARNING}:SSPClassifier"},
            (Arm("ssp", "tight", tasks=_BOTH),),
            about="sufficient-statistic perturbation, one Gaussian release calibrated exactly",
        ),
        Method(
            "ada_ssp",
            "learner",
            {"linear": f"{_LEARNING}:AdaSSPRegressor"},
            (
                Arm("ada_ssp", "published", "code_constants", ("linear",)),
                Arm("ada_ssp", "published", "paper_constants", ("linear",)),
                Arm("ada_ssp", "tight", "", ("linear",)),
            ),
            about="AdaSSP (Wang 2018)",
        ),
        Method(
            "objective_perturbation",
            "learner",
            {"logistic": f"{_LEARNING}:ObjectivePerturbationClassifier"},
            (
                Arm("objective_perturbation", "published", "", ("logistic",)),
                Arm("objective_perturbation", "tight", "", ("logistic",)),
            ),
            about="objective perturbation (Kifer, Smith, Thakurta 2012)",
        ),
        Method(
            "adaptive_margin",
            "learner",
            {"logistic": f"{_LEARNING}:AdaptiveMarginClassifier"},
            (
                Arm("adaptive_margin", "tight", "practical", ("logistic",)),
                Arm("adaptive_margin", "tight", "published", ("logistic",)),
                Arm("adaptive_margin", "published", "published", ("logistic",)),
                Arm("adaptive_margin", "tight", "fixed", ("logistic",)),
            ),
            relations=("replace_one",),
            about="halfspaces for a grid of margins, one chosen privately (Wang, Zhu, Wang)",
        ),
        Method(
            "dp_sgd",
            "learner",
            {"linear": f"{_LEARNING}:DPSGDRegressor", "logistic": f"{_LEARNING}:DPSGDClassifier"},
            (
                Arm("dp_sgd", "tight", tasks=_BOTH),
                Arm("dp_sgd", "published", "excess_risk", ("logistic",), parameters=_EXCESS_RISK_DP_SGD),
            ),
            named=(
                Arm("dp_sgd", "tight", "private_selection", _BOTH, parameters=(("selection", "random_stopping"),)),
                Arm("dp_sgd", "published", "grid_on_test", _BOTH, tuned_on_test=True),
            ),
            about="differentially private stochastic gradient descent (Abadi et al. 2016)",
        ),
        Method(
            "pate",
            "learner",
            {"logistic": f"{_LEARNING}:PATEClassifier"},
            (
                Arm("pate", "tight", tasks=("logistic",)),
                Arm("pate", "published", tasks=("logistic",)),
            ),
            relations=("replace_one",),
            about="private aggregation of teacher ensembles (Papernot et al. 2017, 2018)",
        ),
        Method(
            "dd_ssp",
            "downstream",
            {"linear": f"{_LEARNING}:DDSSPRegressor", "logistic": f"{_LEARNING}:DDSSPClassifier"},
            tuple(Arm("dd_ssp", variant=s, source=s, tasks=_BOTH) for s in ("aim", "mst", "gaussian_marginals")),
            about="regression from privately released marginals (Ferrando and Sheldon)",
        ),
        Method(
            "aim_synth",
            "downstream",
            {},
            _trained_on_rows_of("aim", "aim_synth"),
            about="a public learner trained on AIM's synthetic rows",
        ),
        _synthesizer("aim", f"{_SYNTHESIS}:AIM", "AIM (McKenna et al. 2022)", slow=True, downstream=False),
        _synthesizer("mst", f"{_SYNTHESIS}:MST", "MST (McKenna, Miklau, Sheldon 2021)"),
        _synthesizer("mixture", f"{_SYNTHESIS}:MixtureInference", "AIM with mixture inference", slow=True),
        _synthesizer("independent", f"{_SYNTHESIS}:Independent", "one-way marginals only", downstream=False),
        _synthesizer(
            "gaussian_marginals",
            f"{_SYNTHESIS}:GaussianMarginals",
            "Gaussian noise on every pair",
            downstream=False,
        ),
        Method(
            "chebyshev",
            "synthesizer",
            {"": f"{_SYNTHESIS}:ChebyshevMomentMatching"},
            (Arm("chebyshev"), Arm("chebyshev", "published"), *_trained_on_rows_of("chebyshev")),
            relations=("replace_one",),
            about="Chebyshev moments (Ding, He, Zhu); up to four numeric, ordinal or two-valued columns",
        ),
        Method(
            "reduced_space",
            "synthesizer",
            {"": f"{_SYNTHESIS}:ReducedSpaceLP"},
            (
                Arm("reduced_space"),
                Arm("reduced_space", "published", parameters=_PAPERS_REDUCED_SPACE),
                *_trained_on_rows_of("reduced_space"),
            ),
            relations=("replace_one", "add_remove"),
            about="reduced-space fit (Boedihardjo, Strohmer, Vershynin); about 20 Boolean columns",
        ),
    )
}

DEFAULT = (
    "trivial",
    "ols",
    "logistic",
    "ssp",
    "ada_ssp",
    "objective_perturbation",
    "dp_sgd",
    "dd_ssp",
    "aim_synth",
    "aim",
    "mst",
    "independent",
    "gaussian_marginals",
)


def method(name: str, registry: Mapping[str, Method] = BUILT_IN) -> Method:
    """Return the method with id `name`, or raise an `InputError` with the nearest id."""
    try:
        return registry[name]
    except KeyError:
        raise unknown_name("method", name, registry) from None


def class_from_file(path: Path, name: str) -> type:
    """Import a user's Python file and return its class `name`; what goes wrong is one line."""
    if not path.is_file():
        raise InputError(f"method file {path} does not exist")
    spec = importlib.util.spec_from_file_location(f"marginalia_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"method file {path} cannot be imported: {type(error).__name__}: {error}") from None
    try:
        return getattr(module, name)
    except AttributeError:
        raise unknown_name(
            f"class in {path}", name, (k for k, v in vars(module).items() if inspect.isclass(v))
        ) from None


def tupled(value: Any) -> Any:
    """Turn lists into tuples at every depth: arms are compared and hashed, and travel through JSON."""
    return tuple(tupled(v) for v in value) if isinstance(value, list | tuple) else value

"""The registry: one record for each method, in the order of legends and tables (what is compared most stands together).

To add a method, write its class and its record; nothing else names methods.
"""

from __future__ import annotations

from collections.abc import Mapping

from marginalia.errors import unknown_name
from marginalia.methods.record import NON_PRIVATE, Arm, Limits, Method

_BOTH = ("linear", "logistic")
_LINEAR, _LOGISTIC = ("linear",), ("logistic",)
_LEARNERS = (("linear", "ols"), ("logistic", "logistic"))  # what is trained on synthetic rows
_TRAINED_ON_ROWS = {"ols": ("OLS", 0), "logistic": ("logistic", 0)}


def _trained_on_rows_of(source: str) -> tuple[Arm, ...]:
    return tuple(
        Arm(source, variant=learner, tasks=(task,), source=source, learner=learner) for task, learner in _LEARNERS
    )


# Zhou et al., the published code of "Bounding the Excess Risk for Linear Models Trained on Marginal-Preserving,
# Differentially-Private, Synthetic Data": DP-SGD (their Algorithm 6) and PATE at epsilon 1, for each of its data sets.
_EXCESS_RISK_DP_SGD = {
    name: {"batch_size": batch, "steps": steps, "learning_rate": rate, "decay": decay}
    for name, batch, steps, rate, decay in (
        ("adult", 1000, 500, 5.0, 0.1),
        ("churn", 100, 500, 1.0, 0.5),
        ("compas", 200, 500, 5.0, 0.1),
        ("dutch", 3000, 500, 5.0, 0.1),
        ("heart", 20, 1000, 5.0, 0.1),
        ("law", 500, 300, 1.0, 0.1),
    )
}
_EXCESS_RISK_PATE = {  # Heart: of the paper itself, its code has 15 teachers
    name: {"n_teachers": teachers, "n_queries": queries}
    for name, teachers, queries in (
        ("adult", 500, 100),
        ("churn", 200, 100),
        ("compas", 300, 100),
        ("dutch", 800, 100),
        ("heart", 20, 20),
        ("law", 200, 100),
    )
}

BUILT_IN: dict[str, Method] = {
    m.id: m
    for m in (
        Method(
            "ols", "learner",
            {"linear": "marginalia.methods.ols.public:OLSRegressor"},
            (Arm("ols", NON_PRIVATE, tasks=_LINEAR),),
            about="least squares without privacy",
            label="OLS", colour="#000000", default=True,
        ),
        Method(
            "logistic", "learner",
            {"logistic": "marginalia.methods.ols.public:LogisticClassifier"},
            (Arm("logistic", NON_PRIVATE, tasks=_LOGISTIC),),
            about="logistic regression without privacy",
            label="Logistic", colour="#000000", default=True,
        ),
        Method(
            "trivial", "learner",
            {
                "linear": "marginalia.methods.trivial.trivial:TrivialRegressor",
                "logistic": "marginalia.methods.trivial.trivial:TrivialClassifier",
            },
            (Arm("trivial", NON_PRIVATE, tasks=_BOTH),),
            about="predicts 0: the level any method must beat",
            label="Trivial", colour="#767676", default=True,
        ),
        Method(
            "ssp", "learner",
            {
                "linear": "marginalia.methods.ssp.ssp:SSPRegressor",
                "logistic": "marginalia.methods.ssp.ssp:SSPClassifier",
            },
            (Arm("ssp", "tight", tasks=_BOTH),),
            named=(Arm("ssp", "published", tasks=_BOTH),),
            about="sufficient-statistic perturbation, one Gaussian release calibrated exactly",
            label="SSP", colour="#D55E00", marker="s", default=True, gaussian=True,
        ),
        Method(
            "ada_ssp", "learner",
            {"linear": "marginalia.methods.ada_ssp.ada_ssp:AdaSSPRegressor"},
            (
                Arm("ada_ssp", "published", "code_constants", _LINEAR),
                Arm("ada_ssp", "published", "paper_constants", _LINEAR),
                Arm("ada_ssp", "tight", "", _LINEAR),
            ),
            about="AdaSSP (Wang 2018), with the constants of the DD-SSP paper and of its code",
            label="AdaSSP", colour="#E69F00", marker="^",
            variants={"paper_constants": ("paper’s constants", 0), "code_constants": ("code’s constants", 1)},
            default=True, gaussian=True,
        ),
        Method(
            "objective_perturbation", "learner",
            {
                "logistic": "marginalia.methods.objective_perturbation.objective_perturbation:"
                "ObjectivePerturbationClassifier"
            },
            (
                Arm("objective_perturbation", "published", "", _LOGISTIC),
                Arm("objective_perturbation", "tight", "", _LOGISTIC),
            ),
            about="objective perturbation (Kifer, Smith, Thakurta 2012)",
            label="ObjPert", colour="#009E73", marker="D", default=True,
        ),
        Method(
            "dp_sgd", "learner",
            {
                "linear": "marginalia.methods.dp_sgd.learners:DPSGDRegressor",
                "logistic": "marginalia.methods.dp_sgd.learners:DPSGDClassifier",
            },
            (
                Arm("dp_sgd", "tight", tasks=_BOTH),
                Arm(
                    "dp_sgd",
                    "published",
                    "excess_risk",
                    _LOGISTIC,
                    parameters=(
                        ("clip", 1.0),
                        ("decay", 0.1),
                        ("fit_intercept", True),
                        ("inputs", "codes"),
                        ("learning_rate", 5.0),
                        ("steps", 500),
                    ),
                ),
            ),
            named=(
                Arm("dp_sgd", "tight", "private_selection", _BOTH, parameters=(("selection", "random_stopping"),)),
                Arm("dp_sgd", "published", "grid_on_test", _BOTH, tuned_on_test=True),
            ),
            about="differentially private stochastic gradient descent (Abadi et al. 2016)",
            label="DP-SGD", colour="#CC79A7", marker="v",
            variants={
                "grid_on_test": ("grid tuned on test", 0),
                "excess_risk": ("excess-risk paper’s settings", 1),
                "private_selection": ("private selection", 1),
            },
            constants={("published", "excess_risk"): _EXCESS_RISK_DP_SGD},
            default=True, limits=Limits(public_rows=True),
        ),
        Method(
            "adaptive_margin", "learner",
            {"logistic": "marginalia.methods.adaptive_margin.classifier:AdaptiveMarginClassifier"},
            (
                Arm("adaptive_margin", "tight", "practical", _LOGISTIC),
                Arm("adaptive_margin", "tight", "published", _LOGISTIC),
                Arm("adaptive_margin", "published", "published", _LOGISTIC),
                Arm("adaptive_margin", "tight", "fixed", _LOGISTIC),
            ),
            named=(Arm("adaptive_margin", "tight", "derived", _LOGISTIC, parameters=(("max_steps", 1000),)),),
            about="halfspaces for a grid of margins, one chosen privately (Wang, Zhu, Wang)",
            label="Adaptive margin", colour="#6A3D9A", marker="H",
            variants={"published": ("published", 0), "practical": ("practical", 1), "derived": ("derived", 2)},
            relations=("replace_one",), limits=Limits(small_delta=True),
        ),
        Method(
            "pate", "learner",
            {"logistic": "marginalia.methods.pate.pate:PATEClassifier"},
            (Arm("pate", "tight", tasks=_LOGISTIC), Arm("pate", "published", tasks=_LOGISTIC)),
            about="private aggregation of teacher ensembles (Papernot et al. 2017, 2018)",
            label="PATE", colour="#8C510A", marker=(6, 1, 0),
            constants={("published", ""): _EXCESS_RISK_PATE},
            relations=("replace_one",), gaussian=True,
        ),
        Method(
            "dd_ssp", "downstream",
            {
                "linear": "marginalia.methods.dd_ssp.dd_ssp:DDSSPRegressor",
                "logistic": "marginalia.methods.dd_ssp.dd_ssp:DDSSPClassifier",
            },
            tuple(Arm("dd_ssp", variant=s, source=s, tasks=_BOTH) for s in ("aim", "mst", "gaussian_marginals")),
            about="regression from a synthesizer's marginals (Ferrando and Sheldon)",
            label="DD-SSP", colour="#0072B2", marker="o",
            variants={
                "aim": ("AIM", 0),
                "mst": ("MST", 1),
                "gaussian_marginals": ("Gaussian marginals", 2),
                "mixture": ("mixture", 3),
                "independent": ("independent", 4),
            },
            default=True,
        ),
        Method(
            "aim_synth", "downstream",
            {},
            tuple(Arm("aim_synth", tasks=(task,), source="aim", learner=learner) for task, learner in _LEARNERS),
            about="a public learner trained on AIM's synthetic rows",
            label="AIM-Synth", colour="#56B4E9", marker="p", default=True,
        ),
        Method(
            "aim", "synthesizer",
            {"": "marginalia.methods.aim.aim:AIM"},
            (Arm("aim"),),
            named=(Arm("aim", "tight", "tuned", parameters=(("constants", "tuned"),)),),
            about="adaptively chosen marginals and a graphical model of them (McKenna et al. 2022)",
            label="AIM", colour="#332288", marker="h",
            variants={"tuned": ("tuned constants", 1)},
            cost="slow", default=True,
        ),
        Method(
            "swift", "synthesizer",
            {"": "marginalia.methods.swift.synthesizer:SWIFT"},
            (Arm("swift"), *_trained_on_rows_of("swift")),
            about="one selection, a tree of cliques, one measurement of what pays in it (google/dpsynth 2026)",
            label="SWIFT", colour="#DDCC77", marker=(3, 1, 0), variants=_TRAINED_ON_ROWS, cost="slow", gaussian=True,
        ),
        Method(
            "mwem_pgm", "synthesizer",
            {"": "marginalia.methods.mwem_pgm.mwem:MWEM"},
            (Arm("mwem_pgm"), *_trained_on_rows_of("mwem_pgm")),
            about="the workload's worst marginal, a few rounds (Hardt et al. 2012, McKenna et al. 2019)",
            label="MWEM+PGM", colour="#8833EE", marker=(4, 1, 45), variants=_TRAINED_ON_ROWS, cost="slow",
        ),
        Method(
            "privbayes", "synthesizer",
            {"": "marginalia.methods.privbayes.privbayes:PrivBayes"},
            (Arm("privbayes"), *_trained_on_rows_of("privbayes")),
            about="a Bayesian network, and every column with its parents (Zhang et al. 2017)",
            label="PrivBayes", colour="#99CC00", marker=(7, 1, 0), variants=_TRAINED_ON_ROWS, cost="slow",
        ),
        Method(
            "mst", "synthesizer",
            {"": "marginalia.methods.mst.mst:MST"},
            (Arm("mst"), *_trained_on_rows_of("mst")),
            about="a spanning tree of two-way marginals (McKenna, Miklau, Sheldon 2021)",
            label="MST", colour="#882255", marker="P",
            variants=_TRAINED_ON_ROWS,
            default=True,
        ),
        Method(
            "mixture", "synthesizer",
            {"": "marginalia.methods.mixture.mixture:MixtureInference"},
            (Arm("mixture"), *_trained_on_rows_of("mixture")),
            about="AIM's selection with mixture inference",
            label="Mixture", colour="#44AA99", marker=(4, 1, 0),
            variants=_TRAINED_ON_ROWS,
            cost="slow",
        ),
        Method(
            "independent", "synthesizer",
            {"": "marginalia.methods.independent.independent:Independent"},
            (Arm("independent"),),
            about="one-way marginals only",
            label="Independent", colour="#999933", marker="<", default=True, gaussian=True,
        ),
        Method(
            "gaussian_marginals", "synthesizer",
            {"": "marginalia.methods.gaussian_marginals.gaussian_marginals:GaussianMarginals"},
            (Arm("gaussian_marginals"),),
            about="Gaussian noise on every pair",
            label="Gaussian marginals", colour="#CC6677", marker=">", default=True,
            limits=Limits(all_pairs=True), gaussian=True, raw_answers=True,
        ),
        Method(
            "residual_planner", "synthesizer",
            {"": "marginalia.methods.residual_planner.planner:ResidualPlanner"},
            (Arm("residual_planner"),),
            about="every pair from its residuals, at the least total variance (Xiao et al. 2023)",
            label="Residual planner", colour="#661100", marker="X",
            limits=Limits(all_pairs=True), gaussian=True, raw_answers=True,
        ),
        Method(
            "aim_residual", "synthesizer",
            {"": "marginalia.methods.aim_residual.aim_residual:ResidualAIM"},
            (Arm("aim_residual"),),
            about="AIM's selection on residuals, without a model of all columns (compare Fuentes et al. 2026)",
            label="Residual AIM", colour="#88CCEE", marker="8",
            limits=Limits(all_pairs=True), raw_answers=True,
        ),
        Method(
            "chebyshev", "synthesizer",
            {"": "marginalia.methods.chebyshev.synthesizer:ChebyshevMomentMatching"},
            (Arm("chebyshev"), Arm("chebyshev", "published"), *_trained_on_rows_of("chebyshev")),
            about="Chebyshev moments (Ding, He, Zhu); up to four numeric, ordinal or two-valued columns",
            label="Chebyshev", colour="#AA4499", marker="*",
            variants=_TRAINED_ON_ROWS,
            relations=("replace_one",), limits=Limits(columns=4, values="ordered"), gaussian=True,
        ),
        Method(
            "reduced_space", "synthesizer",
            {"": "marginalia.methods.reduced_space.synthesizer:ReducedSpaceLP"},
            (
                Arm("reduced_space"),
                Arm(
                    "reduced_space",
                    "published",
                    parameters=(
                        ("family", "monomials"),
                        ("measure", "uniform"),
                        ("sampling", "iid"),
                        ("solution", "lp"),
                        ("space", "sampled"),
                    ),
                ),
                *_trained_on_rows_of("reduced_space"),
            ),
            about="reduced-space fit (Boedihardjo, Strohmer, Vershynin); about 20 Boolean columns",
            label="Reduced space", colour="#117733", marker="d",
            variants=_TRAINED_ON_ROWS,
            # The paper's Algorithm 1; and our own fit, which has neither its functions, its points nor its objective.
            names={"published": "Reduced-space LP", "tight": "Max-entropy parities"},
            relations=("replace_one", "add_remove"), pure=True, limits=Limits(values="boolean"),
        ),
    )
}  # fmt: skip

DEFAULT = tuple(m.id for m in BUILT_IN.values() if m.default)


def method(name: str, registry: Mapping[str, Method] = BUILT_IN) -> Method:
    """Return the method with id `name`, or raise an `InputError` with the nearest id."""
    try:
        return registry[name]
    except KeyError:
        raise unknown_name("method", name, registry) from None

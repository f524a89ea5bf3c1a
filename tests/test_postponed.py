"""scipy.stats and pandas are loaded when they are used, in the processes that are ours."""

import subprocess
import sys

import pytest
from tiers import others_slow

HEAD = "import sys; from marginalia.postponed import postpone; postpone(); postpone();"
LOADED = "loaded = lambda: 'scipy.stats._stats_py' in sys.modules;"


@pytest.mark.parametrize(
    "use",
    others_slow(
        [
            "import scipy.stats; assert not loaded(); assert scipy.stats.norm.cdf(0) == 0.5",
            "from scipy import stats; assert not loaded(); assert stats.norm.cdf(0) == 0.5",
            "from scipy.stats import norm; assert norm.cdf(0) == 0.5",
            "from scipy.stats._distn_infrastructure import rv_continuous",
            "import scipy.stats as first; first.norm; import scipy.stats as s; assert s.norm is first.norm is s.norm",
            "import sklearn.base; assert not loaded(); import sklearn.metrics",
            "import scipy.stats\ntry: scipy.stats.nothing\nexcept AttributeError: pass\nelse: raise AssertionError",
        ]
    ),
)
@pytest.mark.slow
def test_every_way_to_it_leads_there(use):
    code = f"{HEAD}\n{LOADED}\n{use}\nassert loaded() and type(sys.modules['scipy.stats']).__name__ == 'module'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "import pandas as pd; assert not loaded(); pd.DataFrame({'a': [1]})",
        "import pandas; from pandas.api.types import is_list_like",
        "import sklearn.base; assert not loaded(); import pandas as pd; pd.Series([1])",
        "import pandas, pyarrow; assert not loaded(); assert pyarrow.table({'a': [1]}).to_pandas().shape == (1, 1)",
    ],
)
def test_pandas_is_loaded_when_it_is_used(use):
    code = f"{HEAD}\nloaded = lambda: 'pandas._libs' in sys.modules\n{use}\nassert loaded()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_module_that_is_loaded_stays_as_it_is():
    code = "import sys, scipy.stats; m = scipy.stats; from marginalia.postponed import postpone; postpone();"
    subprocess.run([sys.executable, "-c", f"{code} assert sys.modules['scipy.stats'] is m"], check=True)

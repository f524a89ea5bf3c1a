"""Adapter for dpsynth, which cannot be installed here: see UNAVAILABLE."""

METHODS = {
    "aim": {"tasks": [], "relations": ["add_remove"], "about": "AIM of dpsynth"},
    "mst": {"tasks": [], "relations": ["add_remove"], "about": "MST of dpsynth"},
    "swift": {"tasks": [], "relations": ["add_remove"], "about": "SWIFT of dpsynth"},
}
# Read by envs/install_peer.py, which makes no environment then: every fit becomes a row with this message.
UNAVAILABLE = "dpsynth is in no package index, needs Python 3.12 or 3.13, and takes mbi and dp_accounting from git"


def fit(request):
    """Say why there is nothing to run."""
    raise ImportError(UNAVAILABLE)

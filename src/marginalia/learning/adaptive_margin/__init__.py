"""Private linear classification that adapts to an unknown margin (Wang, Zhu and Wang)."""

from marginalia.learning.adaptive_margin.classifier import AdaptiveMarginClassifier

__all__ = ["AdaptiveMarginClassifier"]

"""Zhou et al., bounding the excess risk of linear models trained on marginal-preserving private synthetic data."""

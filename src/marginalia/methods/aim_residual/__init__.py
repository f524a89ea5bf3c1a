"""AIM on residuals."""

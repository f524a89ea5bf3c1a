"""Objective perturbation."""

"""Training of the embedded translator: `python -m model.training prepare | train | evaluate | export`."""

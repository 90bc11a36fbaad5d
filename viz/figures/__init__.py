"""Figures: arrays and labels in, one `plotly.graph_objects.Figure` out. No Gradio, no files, no show(), nothing of `model`."""

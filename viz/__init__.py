"""The interface: figures (pure functions), panels (Gradio tabs), one component that shows a figure, and every visible text."""

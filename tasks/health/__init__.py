"""The health of a store: one set of figures for the command line, the flow and the notebooks."""

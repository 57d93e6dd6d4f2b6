"""Plain data drawn as Vega-Lite specifications."""

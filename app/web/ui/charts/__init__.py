"""Geometry of the charts: data in, coordinates out. The SVG itself is in `templates/macros/charts.html`.

Every chart is laid out twice, wide and narrow, because type inside a scaled SVG would shrink with it on a phone.
"""

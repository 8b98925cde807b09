"""An analysis as one HTML page that needs nothing else: no script, no network, light and dark."""

from __future__ import annotations

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from collectors.profile.heat_map import as_svg
from collectors.profile.report import Analysis, by_rank, headline, shown

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Profile analysis</title>
<style>
:root { --page: #ffffff; --text: #1f2937; --quiet: #4b5563; --line: #d1d5db; --high: #b91c1c; --medium: #92400e;
  --info: #1d4ed8; }
@media (prefers-color-scheme: dark) { :root { --page: #111827; --text: #e5e7eb; --quiet: #9ca3af; --line: #374151;
  --high: #fca5a5; --medium: #fcd34d; --info: #93c5fd; } }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 64rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-bottom: .2rem; }
section { border-top: 1px solid var(--line); padding: .4rem 0 .8rem; }
.severity { font-size: .8rem; font-weight: 600; text-transform: uppercase; }
.high { color: var(--high); } .medium { color: var(--medium); } .info { color: var(--info); }
.quiet { color: var(--quiet); } p { margin: .3rem 0; }
table { border-collapse: collapse; margin: .4rem 0; } td, th { padding: .1rem .8rem .1rem 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; } td.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
</style>
</head>
<body>
<h1>Profile analysis</h1>
<table>
<tr><th>profile</th><th>what it holds</th><th>source</th></tr>
{%- for profile in analysis.profiles %}
<tr><td>{{ profile.label }}</td><td>{{ headline(profile) }}</td><td class="quiet">{{ profile.source }}</td></tr>
{%- endfor %}
</table>
{%- for finding in analysis.findings %}
<section id="{{ finding.id }}-{{ loop.index }}">
<h2>{{ finding.title }}</h2>
<p><span class="severity {{ finding.severity }}">{{ finding.severity }}</span>
<span class="quiet">{{ finding.id }}</span></p>
<p>{{ finding.meaning }}</p>
<table>
{%- for rank, figures in by_rank(finding.figures) %}
{%- for figure in figures %}
<tr><td>{{ (rank or "all") if loop.first else "" }}</td><td>{{ figure.name }}</td>
<td class="number">{{ shown(figure) }}</td></tr>
{%- endfor %}
{%- endfor %}
</table>
{%- if finding.threshold %}
<p class="quiet">Held to: {{ finding.threshold }}</p>
{%- endif %}
{%- if finding.advice %}
<p>What to try:</p>
<ul>{% for advice in finding.advice %}<li>{{ advice }}</li>{% endfor %}</ul>
{%- endif %}
</section>
{%- endfor %}
{%- if picture %}
<section><h2>Memory by component over time</h2><div class="wide">{{ picture }}</div></section>
{%- endif %}
{%- if analysis.notes %}
<section><h2>Not read, or with reserve</h2>
<ul>{% for note in analysis.notes %}<li>{{ note }}</li>{% endfor %}</ul></section>
{%- endif %}
</body>
</html>
"""

_TEMPLATE = Environment(autoescape=True, undefined=StrictUndefined).from_string(PAGE)


def as_html(analysis: Analysis) -> str:
    """The whole page. Names from the profiles are escaped; there is no script, and the page allows none."""
    has_memory = any(profile.memory for profile in analysis.profiles)
    # The picture escapes the names in it itself.
    picture = Markup(as_svg(analysis.profiles)) if has_memory else None  # noqa: S704
    return _TEMPLATE.render(
        analysis=analysis, picture=picture, headline=headline, by_rank=by_rank, shown=shown
    )

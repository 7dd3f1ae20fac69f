"""CSS of the map, in a page as in an SVG file of its own."""

from __future__ import annotations

MAP_CSS = """
.topology{--m-ink:#1d2329;--m-faint:#57606a;--m-card:#fff;--m-line:#c5ccd4;--m-region:#eef1f4;--m-page:#f6f7f9;
--m-ok:#1a7f37;--m-problem:#b3122b;--m-idle:#6e7781;--m-unknown:#6e7781;--m-added:#116329;--m-changed:#8a5a00;
--m-restarting:#6f3fb5;--m-removed:#b3122b;--m-blocked:#b3122b}
@media screen and (prefers-color-scheme:dark){
.topology{--m-ink:#e6e9ed;--m-faint:#a0a9b4;--m-card:#1a1f25;--m-line:#454e59;--m-region:#20262d;--m-page:#111418;
--m-ok:#5fc27e;--m-problem:#ff8f97;--m-idle:#98a2ad;--m-unknown:#98a2ad;--m-added:#6fd08c;--m-changed:#e3b35c;
--m-restarting:#c3a1f5;--m-removed:#ff8f97;--m-blocked:#ff8f97}}
.topology text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--m-ink)}
.topology .back{fill:var(--m-page)}
.topology .region{fill:var(--m-region)}.topology .faint{fill:var(--m-faint)}
.topology .node{fill:var(--m-card);stroke:var(--m-line);stroke-width:1.2}
.topology .name{font-weight:600;font-size:13.5px}.topology .small{font-size:11.5px}
.topology .edge{fill:none;stroke:var(--m-idle);stroke-opacity:.85}.topology .arrow{fill:var(--m-idle)}
.topology .ok.edge{stroke:var(--m-ok)}.topology .ok.arrow,.topology .ok.dot{fill:var(--m-ok)}
.topology .problem.edge{stroke:var(--m-problem)}.topology .problem.arrow,.topology .problem.dot{fill:var(--m-problem)}
.topology .idle.edge{stroke-dasharray:1.5 5;stroke-linecap:round}.topology .idle.dot{fill:var(--m-idle)}
.topology .unknown.edge{stroke-dasharray:7 5}
.topology .unknown.dot{fill:none;stroke:var(--m-unknown);stroke-width:1.5}
.topology .problem.said{fill:var(--m-problem);font-weight:600}
.topology .marked{font-weight:600}
.topology .mark-added{fill:var(--m-added)}.topology .mark-changed{fill:var(--m-changed)}
.topology .mark-restarting{fill:var(--m-restarting)}.topology .mark-removed{fill:var(--m-removed)}
.topology .mark-blocked{fill:var(--m-blocked)}.topology .mark-unknown{fill:var(--m-faint)}
.topology .lined-added{stroke:var(--m-added);stroke-width:2.4}
.topology .lined-changed{stroke:var(--m-changed);stroke-width:2.4}
.topology .lined-restarting{stroke:var(--m-restarting);stroke-width:2.4}
.topology .lined-removed{stroke:var(--m-removed);stroke-width:2.4}
.topology .lined-blocked{stroke:var(--m-blocked);stroke-width:2.4}
.topology .lined-unknown{stroke:var(--m-faint);stroke-dasharray:5 4;stroke-width:2}
"""

"""What all HTML pages share: their elements, style, filter script and frame.

``mono``, ``code`` and ``codes`` take texts, and escape them; the others take HTML.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence

from reconciler.render.markup import page as safe


def mono(text: str) -> str:
    return f'<span class="mono">{safe(text)}</span>'


def code(text: str) -> str:
    return f"<code>{safe(text)}</code>"


def codes(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def folded(summary: str, inner: str, name: str = "", opened: bool = False) -> str:
    """``name``: of the element, by which a link or a script finds it again."""
    place = (f' id="{safe(name)}"' if name else "") + (" open" if opened else "")
    return f"<details{place}><summary>{summary}</summary>{inner}</details>"


def table(heads: Sequence[str], rows: Iterable[Iterable[str]], numbers: Collection[str] = ()) -> str:
    """``heads`` are words of ours; columns of ``numbers`` are aligned at their last digit. A table that is wider than
    the page moves under its frame, also by keys. On a phone, which breaks rows up, each cell has its head before it;
    two or three columns need none."""
    labelled = len(heads) > 3
    classes = [' class="number"' if head in numbers else "" for head in heads]
    head = "".join(column_head(each, css) for each, css in zip(heads, classes, strict=True))
    labels = [f' data-head="{head}"' if labelled and head else "" for head in heads]
    starts = [f"<td{label}{css}>" for label, css in zip(labels, classes, strict=True)]
    body = "".join(
        f"<tr>{''.join(f'{start}{cell}</td>' for start, cell in zip(starts, row, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'


def column_head(head: str, css: str = "") -> str:
    """``head`` in markup. A column without one is no header: a screen reader would read out an empty one."""
    return f'<th scope="col"{css}>{head}</th>' if head else "<td></td>"


PAGE_CSS = """
:root{color-scheme:light dark;--ink:#1d2329;--faint:#57606a;--page:#f6f7f9;--card:#fff;--line:#d5dae0;--code:#eef1f4;
--add:#116329;--change:#7a4b00;--restart:#6f3fb5;--remove:#a40e26;--high:#b3122b;--medium:#8a5a00;--low:#3d5a73;
--warn:#fff1f0;--warnline:#e5a3a3}
@media screen and (prefers-color-scheme:dark){
:root{--ink:#e6e9ed;--faint:#a0a9b4;--page:#111418;--card:#1a1f25;--line:#343b44;--code:#262c34;--add:#6fd08c;--change:#e3b35c;--restart:#c3a1f5;--remove:#ff8f97;--high:#c9344a;--medium:#9a6b12;
--low:#48657f;--warn:#2c1a1d;--warnline:#7a3640}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
overflow-wrap:anywhere}
main{max-width:72rem;margin:0 auto;padding:1rem 1rem 3rem}
h1{font-size:1.35rem;line-height:1.3;margin:.3rem 0 .5rem;text-wrap:balance}
h2{font-size:1.1rem;line-height:1.35;margin:2rem 0 .5rem}h2 small{display:block;font-weight:400;color:var(--faint)}
h3{font-size:.95rem;margin:1rem 0 .3rem;color:var(--faint)}
a{color:inherit;text-underline-offset:.15em}
p{margin:.3rem 0}.faint,.what{color:var(--faint)}
code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.88em;unicode-bidi:isolate}
code{background:var(--code);border-radius:4px;padding:.1em .3em}
.scroll{overflow-x:auto;margin:.4rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .7rem .3rem 0;border-top:1px solid var(--line);
overflow-wrap:normal}
tr:first-child th,tr:first-child td:empty{border-top:0}th{color:var(--faint);font-weight:500;white-space:nowrap}
td{min-width:6rem}td:not(:first-child){overflow-wrap:anywhere}td:last-child:not(:first-child){min-width:9rem}
@media (max-width:36rem){.scroll table,.scroll tbody{display:block}.scroll tr:first-child{display:none}
.scroll tr{display:flex;flex-wrap:wrap;gap:0 .5rem;border-top:1px solid var(--line);padding:.3rem 0}
.scroll tr:nth-child(2){border-top:0}.scroll td{border:0;padding:0;min-width:0;overflow-wrap:anywhere}
.scroll td:first-child,.scroll td:last-child:not(:first-child){flex:0 0 100%;min-width:0}
.scroll td:first-child{font-weight:600}
.scroll td:last-child:not(:first-child){color:var(--faint)}
.scroll td:nth-child(2):nth-last-child(2)::before{content:"= "}
.scroll td:nth-child(3):nth-last-child(2)::before{content:"\\2192\\a0"}}
@media (max-width:36rem){.scroll td[data-head]{flex:0 1 auto!important;color:var(--ink)!important}
.scroll td[data-head]:empty{display:none}
.scroll td[data-head]:first-child{flex:0 0 100%!important}
.scroll td[data-head]:not(:first-child)::before{content:attr(data-head)" "!important;color:var(--faint)}}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem;margin:.5rem 0}
.card>header{display:flex;gap:.5rem;align-items:baseline;flex-wrap:wrap}
.card>header .mono{font-weight:600;font-size:.98rem;max-width:calc(100% - 1.7rem)}
.sign{font:700 1.05rem ui-monospace,monospace;width:1em;text-align:center;flex:none}
.add{color:var(--add)}.change{color:var(--change)}.restart{color:var(--restart)}.remove{color:var(--remove)}
.badge{color:#fff;border-radius:99px;padding:.05rem .55rem;font-size:.75rem;font-weight:600;white-space:nowrap}
.badge.high{background:var(--high)}.badge.medium{background:var(--medium)}.badge.low{background:var(--low)}
.badge.lasting{background:none;color:var(--ink);border:1px solid var(--faint)}
.risk{border-left:3px solid var(--line);padding-left:.6rem}.risk.high{border-color:var(--high)}
.risk.medium{border-color:var(--medium)}
.urgent{background:var(--warn);border:1px solid var(--warnline);border-radius:8px;
padding:.1rem .9rem .5rem;margin:1rem 0}
.urgent h2{margin-top:.6rem}
ul{margin:.3rem 0;padding-left:1.2rem}li ul{color:var(--faint)}
details{margin:.4rem 0}td>details:first-child{margin:-.25rem 0 0}summary{cursor:pointer;padding:.25rem 0}
details.section>summary{font-size:1.1rem;font-weight:700;margin-top:1rem}
details.section>summary small{font-weight:400;color:var(--faint)}
pre{background:var(--code);border-radius:6px;padding:.6rem .8rem;white-space:pre-wrap}
nav{display:flex;flex-wrap:wrap;gap:.4rem;margin:.8rem 0}
nav a{border:1px solid var(--line);background:var(--card);border-radius:99px;padding:.2rem .7rem;color:inherit;
text-decoration:none;font-size:.9rem}
input{width:100%;font:inherit;padding:.45rem .7rem;border:1px solid var(--line);border-radius:8px;
background:var(--card);color:inherit;margin-top:.5rem}
[hidden]{display:none!important}
@media print{:root{color-scheme:light}.scroll{overflow:visible}
details::details-content{content-visibility:visible;height:auto}
body{background:#fff;color:#000;font-size:11px}main{max-width:none;padding:0}input,nav{display:none}
.card,.urgent{break-inside:avoid}.badge{border:1px solid;color:#000;background:none!important}}
.changes table{min-width:46rem}.changes .group th{text-align:left;color:var(--ink);font-weight:600;padding-top:.7rem}
.changes tr.more td{border-top:0;padding-top:0}.changes td:first-child{min-width:1.4rem;width:1.4rem}
.changes td:last-child:not(:first-child){min-width:2rem}.changes a.sign{text-decoration:none}
.changes tr:target,.changes tr:has(:target){background:var(--warn)}
details.kind>summary{font-weight:600}
@media (max-width:36rem){.changes table{min-width:0}.changes tr.more{border-top:0;padding:0 0 .2rem}
.scroll.changes td:first-child{flex:0 0 1.2rem}.scroll.changes td{padding-right:.2rem}
.scroll.changes td:last-child:not(:first-child){flex:0 0 auto}
.changes td:empty{display:none}.changes td:nth-child(6)::before{content:"\\2192\\a0"}}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(22rem,100%),1fr));gap:.6rem}
.cards .card{margin:0}
.map{background:var(--card);border:1px solid var(--line);border-radius:8px}
.map svg{display:block;width:100%;height:auto;min-width:44rem;margin:auto}.map .topology{--m-page:var(--card)}
.map.wide svg{width:auto;max-width:none}
.map.phone{display:none}
@media screen and (max-width:700px){.map svg{width:auto;max-width:none;min-width:0}
.map.desk{display:none}.map.phone{display:block}.map.phone svg{width:100%;height:auto}}
"""
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
"""Of the map, in a page as in an SVG file of its own."""
CSS = PAGE_CSS + MAP_CSS

# The script makes the field, so that a page without scripts has no field that does nothing.
SCRIPT = """
(function(){
addEventListener('beforeprint',function(){document.querySelectorAll('details').forEach(function(one){one.open=true})});
function show(){var place=location.hash&&document.getElementById(decodeURIComponent(location.hash.slice(1)));
for(var part=place;part;part=part.parentElement){if(part.tagName==='DETAILS'){part.open=true}}
if(place){place.scrollIntoView()}}
addEventListener('hashchange',show);show();
var cards=[].slice.call(document.querySelectorAll('[data-find]'));if(cards.length<6){return}
var field=document.createElement('input'),left=document.createElement('p');field.type='search';
field.placeholder='Filter by topic, cluster, config or risk';field.setAttribute('aria-label',field.placeholder);
left.className='faint';left.setAttribute('role','status');
field.addEventListener('input',function(){var words=field.value.toLowerCase().split(/\\s+/),shown=0,all=0;
cards.forEach(function(card){var text=card.getAttribute('data-find');
var found=words.every(function(word){return text.indexOf(word)>=0});card.hidden=!found;
if(card.tagName==='TR'&&!card.classList.contains('more')){all+=1;shown+=found?1:0}
if(found&&field.value&&card.closest('details.kind')){card.closest('details.kind').open=true}});
left.textContent=field.value?shown+' of '+all+' lines shown':''});
var nav=document.querySelector('main nav');nav.parentNode.insertBefore(left,nav.nextSibling);
nav.parentNode.insertBefore(field,left)})();
"""


def page_html(title: str, body: Iterable[str]) -> str:
    """A whole page. ``body``: elements, escaped."""
    allowed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    head = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{safe(title)}</title>",
        f"<style>{CSS}</style>",
        "</head>",
        "<body><main>",
    )
    return "\n".join([*head, *body, "</main>", f"<script>{SCRIPT}</script>", "</body></html>"]) + "\n"

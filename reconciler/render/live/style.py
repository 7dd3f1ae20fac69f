"""CSS and script of the live page, and the policy that allows these and nothing else."""

from __future__ import annotations

import base64
import hashlib

from reconciler.render.plan.html_style import CSS, SCRIPT

_CSS = """
.skip{position:absolute;left:-99rem}.skip:focus{left:.5rem;top:.5rem;background:var(--card);padding:.4rem;z-index:3}
.bar{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;align-items:center;gap:.3rem 1rem;padding:.45rem 1rem;
background:var(--card);border-bottom:1px solid var(--line)}
.bar nav{margin:0;gap:.2rem}.bar nav a{border-color:transparent}
nav a[aria-current]{border-color:var(--ink);font-weight:600}
#connection{margin-left:auto;font-size:.85rem;color:var(--faint)}
.cut #connection{color:var(--remove);font-weight:600}
.changed{position:sticky;top:3rem;z-index:1;margin:0;padding:.4rem 1rem;background:var(--warn);
border-bottom:1px solid var(--warnline)}
main{max-width:90rem}
a{color:inherit}a:focus-visible,summary:focus-visible,.scroll:focus-visible,input:focus-visible,select:focus-visible,
button:focus-visible{outline:2px solid var(--restart);outline-offset:2px}
#tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(11.5rem,100%),1fr));gap:.5rem;margin:.6rem 0}
.tile{display:flex;flex-direction:column;gap:.1rem;background:var(--card);border:1px solid var(--line);
border-left:4px solid var(--line);border-radius:8px;padding:.4rem .7rem;text-decoration:none;line-height:1.35}
.tile small{color:var(--faint)}.tile span{font-size:.95rem;font-weight:600}
.tile.ok{border-left-color:var(--add)}.tile.problem{border-left-color:var(--remove)}
.tile.unknown{border-left-color:var(--faint);border-left-style:dashed}.tile.idle,.tile.busy{border-left-color:var(--change)}
.pill{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 .5rem;font-size:.8rem;
white-space:nowrap}.pill.ok{color:var(--add);border-color:var(--add)}
.pill.problem{color:var(--remove);border-color:var(--remove);font-weight:600}
.pill.unknown{border-style:dashed;border-color:var(--faint);color:var(--faint)}
.pill.idle,.pill.busy{color:var(--change);border-color:var(--change)}
p.unknown{color:var(--faint);border-left:3px dashed var(--faint);padding-left:.6rem}
.late{color:var(--remove);font-weight:600}
form{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center;margin:.6rem 0}
form label{display:flex;align-items:center;gap:.4rem;color:var(--faint);font-size:.9rem}
form label{white-space:nowrap}@media (min-width:36.01rem){form input{min-width:18rem}}
form input,select,button{font:inherit;font-size:.95rem;line-height:1.4;width:auto;padding:.35rem .6rem;
border:1px solid var(--line);border-radius:8px;background:var(--card);color:var(--ink);margin:0}
button{cursor:pointer}
td:nth-child(n+4),.number{font-variant-numeric:tabular-nums}
@media (min-width:36.01rem){th.number,td.number{text-align:right;padding-right:1.4rem}}
.urgent .cards{margin-bottom:.4rem}
@media (max-width:36rem){main{display:flex;flex-direction:column}main>section{min-width:0;order:2}
main>#head{order:0}main>#todo{order:1}}
@media print{.bar,.changed,.skip{display:none}}
"""
LIVE_CSS = CSS + _CSS

# Parts come as HTML that the server escaped; the policy of the page keeps scripts out of them whatever they hold.
LIVE_SCRIPT = """
(function(){
var main=document.getElementById('main'),state=document.getElementById('connection');
var offset=Date.now()-Number(main.getAttribute('data-now')),heard=Date.now();
function cut(){document.body.classList.add('cut');
state.textContent='not connected: what you see is old, and is asked for again'}
function ages(){if(Date.now()-heard>20000){cut()}
[].forEach.call(document.querySelectorAll('time[data-at]'),function(each){
var seconds=Math.max(0,Math.round((Date.now()-offset-Number(each.getAttribute('data-at')))/1000));
each.title=each.getAttribute('datetime');
each.textContent=seconds<120?seconds+' s ago':seconds<7200?Math.round(seconds/60)+' min ago':
seconds<172800?Math.round(seconds/3600)+' h ago':Math.round(seconds/86400)+' days ago'})}
function opened(part){var names={};[].forEach.call(part.querySelectorAll('details[id]'),function(each){
names[each.id]=each.open});return names}
function put(name,html,digest){var part=document.getElementById(name);
if(!part||part.getAttribute('data-digest')===digest){return}
if(part.hasAttribute('data-calm')){document.getElementById('changed').hidden=false;return}
var names=opened(part),active=document.activeElement,
place=active&&part.contains(active)?[].indexOf.call(part.querySelectorAll('a,summary,[tabindex]'),active):-1,
moved=[].map.call(part.querySelectorAll('.scroll'),function(each){return each.scrollLeft});
part.innerHTML=html;part.setAttribute('data-digest',digest);
[].forEach.call(part.querySelectorAll('details[id]'),function(each){if(each.id in names){each.open=names[each.id]}});
[].forEach.call(part.querySelectorAll('.scroll'),function(each,i){if(moved[i]){each.scrollLeft=moved[i]}});
var again=place<0?null:part.querySelectorAll('a,summary,[tabindex]')[place];
if(again){again.focus({preventScroll:true})}}
ages();setInterval(ages,1000);
if(!window.EventSource){state.textContent='this browser cannot listen: reload the page';return}
var source=new EventSource(main.getAttribute('data-events'));
source.addEventListener('parts',function(event){var told=JSON.parse(event.data);
heard=Date.now();offset=heard-told.now;document.body.classList.remove('cut');state.textContent='live';
told.parts.forEach(function(each){put(each.name,each.html,each.digest)});ages()});
source.onerror=cut})();
"""


def live_policy() -> str:
    """The Content-Security-Policy of every page: its own style and scripts by their digests, its own events."""
    scripts = " ".join(f"'sha256-{_digest(script)}'" for script in (SCRIPT, LIVE_SCRIPT))
    return (
        f"default-src 'none'; style-src 'sha256-{_digest(LIVE_CSS)}'; script-src {scripts}; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""Style and script of the HTML report."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --add: #d7f5dd; --cut: #fde2e1; --line: #8884; --dim: #777; --warn: #b35900;
  --note: #8881; --mild: #6a5acd; --good: #1a7f37; --page: #fff; }
@media (prefers-color-scheme: dark) { :root { --add: #12351b; --cut: #42181a; --warn: #ffb066; --mild: #b3a7ff;
  --good: #56d364; --page: #121212; --dim: #999; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 110rem; padding: 0 1rem;
  background: var(--page); }
table { border-collapse: collapse; } td, th { padding: .1rem .6rem; text-align: left; vertical-align: top; }
.files td:nth-child(n+2) { text-align: right; } .files td:last-child { text-align: left; }
.diff { table-layout: fixed; width: 100%; font: 12.5px/1.4 ui-monospace, monospace; border: 1px solid var(--line); }
.diff td { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .4rem; }
.diff .n { width: 3.2rem; color: var(--dim); text-align: right; user-select: none; }
.hunk + .hunk { border-top: 5px double var(--line); }
.cut { background: var(--cut); } .add { background: var(--add); }
.note td { font: 13px/1.4 system-ui, sans-serif; background: var(--note); }
.note td + td { border-left: 3px solid var(--line); }
a.refused, .error { color: var(--warn); } a.assumed { color: var(--mild); } a.exact { color: var(--good); }
.note a { font-weight: 600; text-decoration: none; }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .3rem; }
form { position: sticky; top: 0; padding: .6rem 0; background: var(--page); border-bottom: 1px solid var(--line);
  z-index: 1; } form:not([hidden]) { display: flex; gap: 1.2rem; flex-wrap: wrap; align-items: center; }
select { font: inherit; max-width: 24rem; } dt { margin-top: .6rem; } dd p { margin: .2rem 0; max-width: 60rem; }
.away { display: none; }
"""
SCRIPT = """
(() => {
  const form = document.getElementById("filter");
  const hunks = [...document.querySelectorAll(".hunk")];
  const show = (element, visible) => element.classList.toggle("away", !visible);
  const apply = () => {
    const file = form.elements.file.value, code = form.elements.code.value, tier = form.elements.tier.value;
    let seen = 0;
    const filtered = Boolean(code || tier);
    const wanted = note => (!code || note.dataset.code === code) && (!tier || note.dataset.tier === tier);
    for (const section of document.querySelectorAll(".file")) {
      const here = !file || section.id === file;
      let any = false;
      for (const hunk of section.querySelectorAll(".hunk")) {
        const notes = [...hunk.querySelectorAll(".note")];
        notes.forEach(note => show(note, wanted(note)));
        const visible = here && (!filtered || notes.some(wanted));
        show(hunk, visible);
        any = any || visible;
        seen += visible;
      }
      show(section, here && (any || !filtered));
    }
    form.elements.count.value = seen + " of " + hunks.length + " hunks";
  };
  form.hidden = false;
  form.addEventListener("change", apply);
  form.addEventListener("submit", event => event.preventDefault());
  apply();
})();
"""

// SPDX-License-Identifier: Apache-2.0
// Puts the page together.
'use strict';

/** What this simulator leaves out, beside what its notes say of this step. */
G.limits = (run) => [
  run.trace
    ? `Replayed from a profiler trace: kernels last as long as they did there. Replayed as profiled, kernels start within ${G.time(run.trace.start_error_median_us, 2)} of the trace in the median.`
    : run.memory_at_peak
      ? 'Times of kernels and host calls are those of formulas and tables, not of a run: docs/accuracy.md has their errors, the worst first.'
      : 'Times of kernels and host calls are what the scenario says, or follow from the bytes and FLOPs that it gives.',
  'Other processes on the machine, paging, and what only the first steps pay (warm-up, autotuning) are not in the step time.',
  run.trace || run.memory_at_peak ? 'Steps of a real host move by 10 to 30 % from run to run where the host sets the pace.' : null,
].filter(Boolean);

G.notes = (parent, run) => {
  const section = G.section('notes', 'Notes');
  parent.append(section);
  if (run.remedies.length) {
    section.append(G.el('h3', {}, 'What to write instead'));
    section.append(G.el('ul', {class: 'plain'}, run.remedies.map((remedy) => G.el('li', {}, remedy))));
  }
  if (run.notes.length) {
    section.append(G.el('h3', {}, `About ${run.variant}`));
    section.append(G.el('ul', {class: 'plain'}, run.notes.map((note) => G.el('li', {}, note))));
  }
  section.append(G.el('h3', {}, 'What these figures do not know'));
  section.append(G.el('ul', {class: 'plain'}, G.limits(run).map((limit) => G.el('li', {}, limit))));
  const {expectations} = G.data;
  if (expectations.length) {
    const failed = expectations.filter((expectation) => !expectation.pass).length;
    section.append(G.el('h3', {}, `Expectations: ${failed ? `${failed} of ${expectations.length} fail` : `all ${expectations.length} hold`}`));
    const show = (value) => typeof value === 'number' ? G.number(value, 6) : value === null ? 'unknown' : String(value);
    G.table(section, {rows: expectations, limit: 12, columns: [
      {title: '', cell: (e) => G.el('span', {class: e.pass ? 'good' : 'bad'}, e.pass ? '✓' : '✗')},
      {title: 'figure', name: true, cell: (e) => e.path},
      {title: 'expected', right: true, cell: (e) => `${e.relation} ${show(e.expected)}${e.relative_to ? ` × ${e.relative_to}` : ''}${e.within ? `, within ${e.within}` : ''}`},
      {title: 'is', right: true, cell: (e) => show(e.actual)}]});
  }
  section.append(G.el('details', {}, G.el('summary', {}, 'The report as text'), G.el('pre', {}, G.data.text)));
};

G.scenario = (page) => {
  const {variants} = G.data;
  if (!variants.length) {
    page.append(G.headline(G.data, null, G.themeButton), G.el('p', {}, 'No variant was run.'));
    return;
  }
  const show = (place) => {
    const run = variants[place];
    const scroll = window.scrollY;
    page.replaceChildren();
    G.sweepCharts();
    page.append(G.headline(G.data, run, G.themeButton));
    const nav = [['timeline', 'Timeline'], ['kernels', 'Kernels'], (run.memory || run.memory_at_peak) && ['memory', 'Memory'],
      run.fusion && run.fusion.groups.length && ['fusion', 'Fusion'], ['figures', 'Figures'], ['notes', 'Notes']].filter(Boolean);
    page.append(G.el('div', {class: 'bar'},
      variants.length > 1 && (variants.length <= 8
        ? G.el('div', {class: 'pills', role: 'group', 'aria-label': 'Variant'}, variants.map((variant, i) => G.el('button', {
          'aria-pressed': String(i === place), onclick: () => show(i)}, variant.variant)))
        : G.el('label', {}, 'Variant ', G.el('select', {onchange: (event) => show(Number(event.target.value))},
          variants.map((variant, i) => G.el('option', {value: String(i), selected: i === place}, variant.variant))))),
      G.el('nav', {}, nav.map(([id, text]) => G.el('a', {href: `#${id}`}, text)))));
    G.overview(page, run, show);
    const timeline = G.timeline(page, run);
    G.kernels(page, run);
    G.memory(page, run, timeline);
    G.fusion(page, run);
    const figures = G.section('figures', variants.length > 1 ? 'Variants in figures' : 'Figures');
    page.append(figures);
    G.figureTable(figures, run, show);
    G.stepParts(figures, run);
    G.notes(page, run);
    window.scrollTo(0, scroll);
    G.shown = place;
  };
  G.show = show;
  show(0);
};

G.themeButton = G.startTheme();
if (G.data.kind === 'sweep') G.sweep(document.getElementById('page'), G.data);
else G.scenario(document.getElementById('page'));

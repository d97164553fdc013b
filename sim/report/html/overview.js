// SPDX-License-Identifier: Apache-2.0
// The first screen: what a step takes, where it goes, what to do first; below it the variants in figures.
'use strict';

G.headline = (data, run, theme) => {
  const facts = [
    run && run.device.name, run && run.host, data.file, `gpusim ${data.gpusim}`,
    data.input && `input ${data.input.slice(0, 23)}`,
  ].filter(Boolean).map((text) => G.el('span', {}, text));
  return G.el('header', {class: 'top'},
    G.el('div', {}, G.el('h1', {}, data.title || data.file), G.el('div', {class: 'facts'}, facts),
      data.description && G.el('p', {class: 'about'}, data.description.trim())),
    theme);
};

G.tiles = (parent, run) => {
  const f = run.figures;
  const tile = (what, value, unit, more, first) => G.el('div', {class: first ? 'tile first' : 'tile'},
    G.el('div', {class: 'what'}, what), G.el('div', {class: 'value'}, value, unit && G.el('span', {class: 'unit'}, unit)),
    G.el('div', {class: 'more'}, more || ' '));
  const split = (text) => { const at = text.lastIndexOf(' '); return [text.slice(0, at), text.slice(at + 1)]; };
  const base = G.data.variants[0];
  const faster = base.figures.step_time_us / f.step_time_us;
  const idle = f.step_time_us - f.gpu_busy_us;
  const tiles = [
    tile('Step time', ...split(G.time(f.step_time_us)),
      run === base || !G.sameWork(run, base) ? (f.steady ? 'in the steady state' : 'mean of the simulated steps') : `${G.factor(faster)} as fast as ${base.variant}`, true),
    tile('GPU busy', ...split(G.percent(f.gpu_utilization)), `${G.time(idle, 3)} idle a step`),
  ];
  if (f.mfu !== null) {
    tiles.push(tile('MFU', ...split(G.percent(f.mfu)), [`of ${G.scaled(run.device.peak, 'FLOP/s')} ${run.device.dtype}`,
      f.hfu !== null && Math.abs(f.hfu - f.mfu) > 0.001 ? `, HFU ${G.percent(f.hfu)}` : '']));
  } else {
    tiles.push(tile('Regime', f.regime, '', {overhead: 'no roof is near', memory: 'bound by memory traffic',
      compute: 'bound by arithmetic', communication: 'bound by collectives', mixed: 'no single limit'}[f.regime]));
  }
  if (f.tokens_per_second !== null) tiles.push(tile('Tokens a second', ...split(G.scaled(f.tokens_per_second, ' ').replace(/ $/, '').trim() + ' '), ''));
  if (f.peak_memory_bytes > 0) {
    const capacity = run.device.capacity;
    tiles.push(tile('Peak memory', ...split(G.bytes(f.peak_memory_bytes)),
      capacity && `${G.percent(f.peak_memory_bytes / capacity)} of ${G.bytes(capacity)}`));
  }
  tiles.push(tile('GPU ops', G.number(f.gpu_ops, 5), '', f.cuda_graph_launches > 0
    ? `${G.number(f.kernel_launches, 5)} launches, ${G.number(f.cuda_graph_launches)} CUDA graphs`
    : `${G.number(f.kernel_launches, 5)} kernel launches`));
  parent.append(G.el('div', {class: 'tiles'}, tiles));
};

/** Step times of all variants, split into busy time by family and idle time by cause. */
G.variantChart = (parent, chosen, choose) => {
  const runs = G.data.variants;
  const longest = Math.max(...runs.map((run) => run.figures.step_time_us));
  const [unit, size] = G.timeUnit(longest);
  const parts = [];
  G.data.families.forEach((family, i) => parts.push({
    name: G.familyNames[family], colour: G.familyColours[family], values: runs.map((run) => G.busyByFamily(run)[i])}));
  G.data.causes.forEach((cause, i) => parts.push({
    name: `idle: ${G.causeNames[cause]}`, colour: G.causeColours[cause], idle: true, title: G.causeMeanings[cause],
    values: runs.map((run) => G.idleByCause(run)[i])}));
  const used = parts.filter((part) => part.values.some((value) => value > 0));
  const chart = G.chart(parent, {
    height: 46 + 38 * runs.length, label: 'Step time of each variant by what it is spent on',
    build: (width) => {
      const ink = G.ink();
      const narrow = width < 560;
      const name = (run) => run.variant;
      return {
        grid: {left: narrow ? 84 : 130, right: narrow ? 70 : 130, top: 4, bottom: 40},
        xAxis: G.axis(`step time, ${unit}`, null, {nameGap: 26, max: longest / size * 1.0001, splitNumber: narrow ? 3 : 5, axisLabel: {color: ink.soft, fontSize: 12, showMaxLabel: false}}),
        yAxis: {
          type: 'category', inverse: true, data: runs.map(name), axisLine: {show: false}, axisTick: {show: false}, triggerEvent: true,
          axisLabel: {color: (value) => value === chosen().variant ? ink.text : ink.soft, width: narrow ? 76 : 120, overflow: 'truncate', fontSize: 13,
            fontWeight: 'normal'}},
        tooltip: G.tooltip({
          trigger: 'item', formatter: (p) => {
            const run = runs[p.dataIndex];
            const rows = used.filter((part) => part.values[p.dataIndex] > 0).map((part) => [part.name,
              `${G.time(part.values[p.dataIndex])}  ${G.percent(part.values[p.dataIndex] / run.figures.step_time_us)}`]);
            return G.tip(`${run.variant}: ${G.time(run.figures.step_time_us)}`, rows);
          }}),
        series: used.map((part, i) => ({
          type: 'bar', stack: 'step', name: part.name, barWidth: 22, cursor: 'pointer',
          data: part.values.map((value) => value / size),
          itemStyle: {
            color: part.colour,
            decal: part.idle ? {symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 3], rotation: -Math.PI / 4, color: 'rgba(255,255,255,0.45)'} : {symbol: 'none'}},
          emphasis: {focus: 'none'},
          label: i === used.length - 1 ? {
            show: true, position: 'right', color: ink.text, fontSize: 13, distance: 8,
            formatter: (p) => {
              const us = runs[p.dataIndex].figures.step_time_us;
              const compared = !narrow && p.dataIndex > 0 && G.sameWork(runs[0], runs[p.dataIndex]);
              return `${G.time(us, 3)}${compared ? `  {x|${(runs[0].figures.step_time_us / us).toFixed(2)}×}` : ''}`;
            },
            rich: {x: {color: ink.soft, fontSize: 12}}} : {show: false},
        })),
        aria: {enabled: true, decal: {show: true}, label: {enabled: false}},
      };
    },
    ready: (instance) => {
      if (runs.length < 2) return;
      instance.on('click', (p) => choose(p.componentType === 'yAxis' ? runs.findIndex((run) => run.variant === p.value) : p.dataIndex));
    },
  });
  const run = chosen();
  const share = (value) => ` ${G.percent(value / run.figures.step_time_us)}`;
  const busy = G.data.families.map((family, i) => ({text: G.familyNames[family] + share(G.busyByFamily(run)[i]), colour: G.familyColours[family], value: G.busyByFamily(run)[i]}));
  const idle = G.data.causes.map((cause, i) => ({text: G.causeNames[cause] + share(G.idleByCause(run)[i]), title: G.causeMeanings[cause],
    colour: G.causeColours[cause], kind: 'idle', value: G.idleByCause(run)[i]}));
  parent.append(G.legend([{group: `busy ${G.percent(run.figures.gpu_utilization)}`}, ...busy.filter((key) => key.value > 0),
    {group: `idle ${G.percent(1 - run.figures.gpu_utilization)}`}, ...idle.filter((key) => key.value > 0)]));
  return chart;
};

/** The one change of those worked out that brings most, in a sentence; null: none is worth it. */
G.firstChange = (run) => {
  const now = run.figures.step_time_us;
  const changes = G.data.variants.filter((other) => other !== run && G.sameWork(other, run)).map((other) => [`${other.variant} first`, other.figures.step_time_us]);
  if (run.one_cuda_graph) changes.push(['one CUDA graph first', run.one_cuda_graph.step_time_us]);
  changes.sort((a, b) => a[1] - b[1]);
  if (!changes.length || changes[0][1] > 0.97 * now) return null;
  return `Try ${changes[0][0]}: ${G.time(changes[0][1])} a step, ${G.percent(1 - changes[0][1] / now)} less.`;
};

/** What other variants, and a CUDA graph, would make of the step. */
G.options = (parent, run) => {
  const now = run.figures.step_time_us;
  const options = G.data.variants.filter((other) => other !== run).map((other) => ({what: other.variant, us: other.figures.step_time_us, other}));
  if (run.one_cuda_graph) {
    options.push({what: run.one_cuda_graph.cut_by.length ? 'CUDA graphs, as far as they can be captured' : 'the same ops as one CUDA graph',
      us: run.one_cuda_graph.step_time_us});
  }
  if (!options.length) return;
  const rank = (option) => (option.other && !G.sameWork(option.other, run) ? 1e12 : 0) + option.us;
  options.sort((a, b) => rank(a) - rank(b));
  parent.append(G.el('h3', {}, `Instead of ${run.variant}`));
  parent.append(G.el('table', {}, G.el('tbody', {}, options.slice(0, 8).map((option) => {
    if (option.other && !G.sameWork(option.other, run)) {
      const tokens = G.tokens(option.other);
      const more = tokens === null || G.tokens(run) === null ? NaN : option.other.figures.tokens_per_second / run.figures.tokens_per_second - 1;
      return G.el('tr', {}, G.el('td', {}, option.what, G.el('div', {class: 'ops'}, tokens === null ? 'other work' : `other work: ${G.number(tokens, 5)} tokens a step`)),
        G.el('td', {class: 'right'}, G.time(option.us)), G.el('td', {class: `right ${more >= 0.01 ? 'good' : more <= -0.01 ? 'bad' : 'soft'}`},
          isFinite(more) ? `${more >= 0 ? '+' : '−'}${G.percent(Math.abs(more))} tokens/s` : '–'));
    }
    const change = option.us / now - 1;
    const text = Math.abs(change) < 0.0005 ? 'the same' : `${change > 0 ? '+' : '−'}${G.percent(Math.abs(change))}`;
    return G.el('tr', {}, G.el('td', {}, option.what), G.el('td', {class: 'right'}, G.time(option.us)),
      G.el('td', {class: `right ${change <= -0.01 ? 'good' : change >= 0.01 ? 'bad' : 'soft'}`}, text));
  }))));
};

G.overview = (page, run, choose) => {
  const parent = G.el('section', {id: 'overview'});
  page.append(parent);
  G.tiles(parent, run);
  if (run.out_of_memory) {
    const way = run.out_of_memory.way;
    parent.append(G.el('div', {class: 'note alarm'},
      G.el('b', {}, 'Out of memory: '), `the step needs ${G.bytes(run.out_of_memory.over)} more than the device has. `,
      way ? `It fits with ${way.changes.join(', ')}: ${G.time(way.step_time_us)} a step, ${G.bytes(way.peak)} at most.`
        : run.out_of_memory.tried ? `None of ${run.out_of_memory.tried} settings that were tried fits.` : ''));
  }
  const split = G.el('div', {class: 'split'});
  const left = G.el('div', {}, G.el('h2', {}, 'Where the step goes'));
  const right = G.el('div', {}, G.el('h2', {}, 'What to do'));
  parent.append(split);
  split.append(left, right);
  G.variantChart(left, () => run, choose);
  // The first sentence is what the tiles say.
    const first = G.firstChange(run);
  const sentences = (run.advice.length > 1 ? run.advice.slice(1) : run.advice).filter((sentence) => !first || !sentence.startsWith('Of the variants'));
  right.append(G.el('ol', {class: 'advice'}, [...(first ? [first] : []), ...sentences].map((sentence) => G.el('li', {}, G.sentence(sentence)))));
  G.options(left, run);
};

/** Figures of all variants side by side. */
G.figureTable = (parent, chosen, choose) => {
  const runs = G.data.variants;
  const first = runs[0].figures;
  const f = (name, format) => (run) => run.figures[name] === null || run.figures[name] === undefined ? '–' : format(run.figures[name]);
  const rows = [
    ['step time', f('step_time_us', G.time)],
    ['speed-up', (run) => runs.length > 1 && G.sameWork(runs[0], run) ? G.factor(first.step_time_us / run.figures.step_time_us) : '–'],
    ['makespan from idle', f('makespan_us', G.time)],
    ['GPU busy', f('gpu_utilization', G.percent)],
    ['SM active', f('sm_active', G.percent)], ['occupancy', f('occupancy', G.percent)],
    ['regime', f('regime', String)],
    ['MFU', f('mfu', G.percent)], ['HFU', f('hfu', G.percent)],
    ['tokens a second', f('tokens_per_second', (x) => G.scaled(x, ''))],
    ['memory traffic', f('hbm_bytes', G.bytes)],
    ['peak memory', f('peak_memory_bytes', (x) => x > 0 ? G.bytes(x) : '–')],
    ['GPU ops', f('gpu_ops', (x) => G.number(x, 5))],
    ['kernel launches', f('kernel_launches', (x) => G.number(x, 5))],
    ['CUDA graph launches', f('cuda_graph_launches', (x) => x > 0 ? G.number(x, 5) : '–')],
    ['graph breaks', f('graph_breaks', (x) => x > 0 ? String(x) : '–')],
    ['synchronizations', f('synchronizations', (x) => x > 0 ? G.number(x) : '–')],
    ['ranks', f('parallel.ranks', (x) => x > 1 ? String(x) : '–')],
    ['communication', f('communication.busy_us', (x) => x > 0 ? G.time(x) : '–')],
    ['  of it not hidden', f('communication.exposed_us', (x) => x > 0 ? G.time(x) : '–')],
    ['host working', f('host_work_us', G.time)],
    ['compile time', (run) => run.figures.compile_time_s > 0 ? G.time(run.figures.compile_time_s * 1e6, 3) : '–'],
  ].filter(([, cell]) => runs.some((run) => cell(run) !== '–'));
  parent.append(G.el('div', {class: 'scroll'}, G.el('table', {},
    G.el('thead', {}, G.el('tr', {}, G.el('th', {}, 'per step'), runs.map((run, i) => G.el('th', {class: 'right'},
      runs.length > 1 ? G.el('button', {onclick: () => choose(i)}, run.variant) : run.variant)))),
    G.el('tbody', {}, rows.map(([what, cell]) => G.el('tr', {}, G.el('td', {class: 'soft'}, what),
      runs.map((run) => G.el('td', {class: 'right', style: run === chosen ? {background: 'var(--accent-soft)'} : {}}, cell(run)))))))));
};

/** Phases of a training step, and what each part of a compiler's work brings. */
G.stepParts = (parent, run) => {
  if (run.phases && run.phases.some((phase) => phase.gpu_ops > 0)) {
    const span = G.sumOf(run.phases.map((phase) => phase.span_us));
    parent.append(G.el('h3', {}, 'Phases of the step'));
    parent.append(G.el('table', {class: 'narrow'}, G.el('thead', {}, G.el('tr', {}, ['phase', 'span', 'share', 'GPU busy', 'GPU ops'].map((head, i) =>
      G.el('th', {class: i ? 'right' : null}, head)))), G.el('tbody', {}, run.phases.map((phase) => G.el('tr', {},
      G.el('td', {}, phase.name), G.el('td', {class: 'right'}, G.time(phase.span_us)), G.el('td', {class: 'right'}, G.percent(phase.span_us / span)),
      G.el('td', {class: 'right'}, G.time(phase.busy_us)), G.el('td', {class: 'right'}, String(phase.gpu_ops)))))));
  }
  if (run.gains && run.gains.length > 1) {
    parent.append(G.el('h3', {}, 'What the compiler brings, one thing after the other'));
    parent.append(G.el('table', {class: 'narrow'}, G.el('thead', {}, G.el('tr', {}, ['switched on', 'step time', 'saves'].map((head, i) =>
      G.el('th', {class: i ? 'right' : null}, head)))), G.el('tbody', {}, run.gains.map((part, i) => G.el('tr', {}, G.el('td', {}, part.name),
      G.el('td', {class: 'right'}, G.time(part.step_time_us)),
      G.el('td', {class: 'right'}, i ? `${G.time(run.gains[i - 1].step_time_us - part.step_time_us, 3)}` : ''))))));
  }
};

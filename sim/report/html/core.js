// SPDX-License-Identifier: Apache-2.0
// What all parts of a report share: the data, elements, figures as text, colours.
'use strict';

const G = {
  data: JSON.parse(document.getElementById('data').textContent),
  charts: [],
};

/** An element. Texts are set as text, so no name of a kernel can become markup. */
G.el = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'style') Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
};

// Figures.

/** At least `digits` significant digits, no more decimals than they need. */
G.number = (x, digits = 3) => {
  if (x === null || x === undefined || !isFinite(x)) return '–';
  if (x === 0) return '0';
  const decimals = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(Math.abs(x)))));
  return x.toLocaleString('en-US', {minimumFractionDigits: 0, maximumFractionDigits: decimals, useGrouping: Math.abs(x) >= 1e4});
};
G.timeUnits = [['s', 1e6], ['ms', 1e3], ['µs', 1], ['ns', 1e-3]];
/** The unit in which a time reads best: [name, microseconds]. */
G.timeUnit = (us) => G.timeUnits.find(([, size]) => Math.abs(us) >= size) || G.timeUnits[3];
G.time = (us, digits = 4) => {
  if (us === null || us === undefined) return '–';
  if (us === 0) return '0';
  const [unit, size] = G.timeUnit(us);
  return `${G.number(us / size, digits)} ${unit}`;
};
G.scaled = (x, unit, digits = 3) => {
  if (x === null || x === undefined) return '–';
  for (const [prefix, size] of [['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (Math.abs(x) >= size) return `${G.number(x / size, digits)} ${prefix}${unit}`;
  }
  return unit ? `${G.number(x, digits)} ${unit}` : G.number(x, digits);
};
G.bytes = (x, digits = 3) => {
  if (x === null || x === undefined) return '–';
  for (const [unit, size] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (Math.abs(x) >= size) return `${G.number(x / size, digits)} ${unit}`;
  }
  return `${G.number(x)} B`;
};
G.percent = (share) => {
  if (share === null || share === undefined || !isFinite(share)) return '–';
  const percent = 100 * share;
  if (percent > 0 && percent < 0.1) return '<0.1 %';
  if (percent > 99.9 && percent < 100) return '>99.9 %';
  return `${percent.toFixed(percent >= 99.95 || percent === 0 ? 0 : 1)} %`;
};
G.factor = (x) => `${x.toFixed(2)}×`;
G.words = (name) => name.replace(/_/g, ' ');
/** Sentence with its figures in bold, as elements. */
G.sentence = (text) => {
  const figure = /(\d[\d.,]*(?:\s?(?:%|x as fast|x|ns|us|µs|ms|s|[kMGTP]?(?:i?B|FLOP|FLOPs)(?:\/s)?))(?![\w]))/g;
  return text.split(figure).map((part, i) => i % 2 ? G.el('b', {}, part.replace(/ us$/, ' µs')) : part);
};

// Colours. Families of kernels are cool, causes of idle time warm: what is warm is time to win back.

G.familyColours = {
  matrix_product: '#3f7fd9', attention: '#8a63d6', reduction: '#15a196', elementwise: '#69a84f',
  optimizer: '#c2a51c', communication: '#c650b4', copy: '#8592a3', other: '#a98d6b',
};
G.familyNames = {
  matrix_product: 'matrix products', attention: 'attention', reduction: 'norms, reductions', elementwise: 'elementwise',
  optimizer: 'optimizer', communication: 'communication', copy: 'copies, memsets', other: 'other kernels',
};
G.causeColours = {
  dispatch: '#dd4a2c', launch_latency: '#f0894f', synchronization: '#a8383b', gap: '#cbb3a3', event: '#93586f', input: '#75553c',
};
G.causeNames = {
  dispatch: 'dispatch', launch_latency: 'launch latency', synchronization: 'synchronization', gap: 'gap',
  event: 'event', input: 'input',
};
G.causeMeanings = {
  dispatch: 'the host was still working: the launch came late',
  launch_latency: 'launched, and not yet arrived at the device',
  synchronization: 'the host was blocked until the device was done',
  gap: 'the pause between ops that follow each other',
  event: 'waited for another stream or another device',
  input: 'the host waited for input, or had no more work',
};
G.memoryColours = {
  parameters: '#3f7fd9', buffers: '#7fa9e6', states: '#5a5fc7', optimizer_states: '#c2a51c', inputs: '#8592a3',
  gradients: '#c650b4', activations: '#15a196', activation_gradients: '#69a84f', workspace: '#a98d6b', allocated: '#3f7fd9',
};

G.isDark = () => document.documentElement.dataset.theme === 'dark';
G.ink = () => G.isDark()
  ? {text: '#e7eaee', soft: '#9aa6b3', line: '#2b333d', paper: '#101419', panel: '#181d24', work: '#6d7886', call: '#aebac7'}
  : {text: '#1a1f26', soft: '#5b6672', line: '#dfe3e8', paper: '#ffffff', panel: '#f6f7f9', work: '#aab4bf', call: '#637182'};

G.setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  for (const chart of G.charts) chart.draw();
};
G.startTheme = () => {
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  document.documentElement.dataset.theme = system.matches ? 'dark' : 'light';
  system.addEventListener('change', () => chosen || G.setTheme(system.matches ? 'dark' : 'light'));
  return G.el('button', {
    class: 'theme', title: 'Light or dark', 'aria-label': 'Switch between light and dark',
    onclick: () => { chosen = G.isDark() ? 'light' : 'dark'; G.setTheme(chosen); },
  }, '◐');
};

// Small parts.

G.swatch = (colour, kind) => G.el('span', {
  class: `swatch${kind ? ' ' + kind : ''}`, style: kind === 'wait' ? {borderColor: colour} : {backgroundColor: colour},
});
/** `keys`: {text, colour, kind, title}, or {group}: a heading, left out where nothing follows it. */
G.legend = (keys) => G.el('div', {class: 'legend'}, keys.filter((key, i) => !key.group || (keys[i + 1] && !keys[i + 1].group)).map((key) => key.group
  ? G.el('span', {class: 'group'}, key.group)
  : G.el('span', {class: 'key', title: key.title}, G.swatch(key.colour, key.kind), key.text)));
/** What a tooltip shows. `rows`: [what, value]. */
G.tip = (title, rows, note) => G.el('div', {class: 'tip'}, G.el('div', {class: 'title'}, title.length > 170 ? `${title.slice(0, 120)} … ${title.slice(-45)}` : title),
  rows.filter(Boolean).map(([what, value]) => G.el('div', {class: 'row'}, G.el('span', {}, what), G.el('span', {}, value))),
  note && G.el('div', {class: 'soft small'}, note));
G.section = (id, title, lead) => G.el('section', {id}, G.el('h2', {}, title), lead && G.el('p', {class: 'lead'}, lead));

// Figures of a variant.

G.sumOf = (list) => list.reduce((sum, x) => sum + x, 0);
/** GPU time of a step by family, microseconds: their sum is the busy time, also where ops overlap. */
G.busyByFamily = (run) => {
  const sums = G.data.families.map(() => 0);
  run.ops.total_ns.forEach((total, i) => { sums[run.ops.family[i]] += total; });
  const all = G.sumOf(sums);
  return sums.map((sum) => all > 0 ? sum / all * run.figures.gpu_busy_us : 0);
};
/** Tokens of a step; null: unknown. */
G.tokens = (run) => run.figures.tokens_per_second === null ? null : run.figures.tokens_per_second * run.figures.step_time_us / 1e6;
/** Whether two steps do the same amount of work, as far as tokens tell: else their times say nothing of each other. */
G.sameWork = (a, b) => {
  const [x, y] = [G.tokens(a), G.tokens(b)];
  return x === null || y === null ? x === y : Math.abs(x / y - 1) < 0.005;
};
G.idleByCause = (run) => G.data.causes.map((cause) => run.figures[`idle_us.${cause}`] || 0);

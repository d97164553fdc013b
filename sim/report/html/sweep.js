// SPDX-License-Identifier: Apache-2.0
// Plots of a sweep: any column over any other, coloured by a third.
'use strict';

G.prefixes = {p: 1e-12, n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40};
/** A value as a scenario writes it, in its base unit: "4.8 TB/s" is {number: 4.8e12, unit: "B/s"}. Null: no number. */
G.quantity = (text) => {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/%]*)$/.exec(text.trim());
  if (!match) return null;
  const [, number, unit] = match;
  for (const base of ['FLOP/s', 'FLOPS', 'B/s', 'bit/s', 'Hz', 'bit', 'B', 's']) {
    if (!unit.endsWith(base)) continue;
    const prefix = unit.slice(0, unit.length - base.length);
    if (prefix in G.prefixes) return {number: Number(number) * G.prefixes[prefix], unit: base};
  }
  return {number: Number(number), unit};
};

/** Columns: {name, texts, numbers (null where not one), unit, isNumber, distinct}. */
G.sweepColumns = (data) => data.columns.map((name, c) => {
  const {texts, cells} = data.cells[c];
  const parsed = texts.map((text) => text === '' ? null : G.quantity(text));
  const filled = texts.map((text, i) => i).filter((i) => texts[i] !== '');
  const isNumber = filled.length > 0 && filled.every((i) => parsed[i]) && new Set(filled.map((i) => parsed[i].unit)).size === 1;
  let unit = isNumber ? parsed[filled[0]].unit : '';
  // Result columns say their unit in their name.
  let scale = 1;
  for (const [ending, base, size] of [['_us', 's', 1e-6], ['_s', 's', 1], ['_bytes', 'B', 1]]) {
    if (isNumber && unit === '' && (name.endsWith(ending) || name.startsWith('idle_us.'))) {
      [unit, scale] = name.startsWith('idle_us.') ? ['s', 1e-6] : [base, size];
      break;
    }
  }
  return {
    name, texts, cells, unit, isNumber, distinct: filled.length,
    numbers: parsed.map((value) => isNumber && value ? value.number * scale : null),
  };
});

G.quantityText = (x, unit) => {
  if (unit === 's') return G.time(x * 1e6, 3);
  if (unit === 'B') return G.bytes(x, 3);
  return unit ? G.scaled(x, unit) : Math.abs(x) >= 1e5 ? G.scaled(x, '') : G.number(x);
};

/** More lines than this say nothing: points are shown. */
const lines_max = 200;

/** From blue over green to yellow, for numbers; of even lightness steps in both themes. */
G.ramp = ['#3b4cc0', '#2f7fc1', '#1fa198', '#63b34d', '#d0b52a', '#e0822e'];
G.seriesColours = ['#3f7fd9', '#dd4a2c', '#15a196', '#c2a51c', '#8a63d6', '#c650b4', '#69a84f', '#93586f', '#8592a3', '#a98d6b', '#f0894f', '#5a5fc7'];

G.sweep = (parent, data) => {
  const columns = G.sweepColumns(data);
  const rows = data.cells.length ? data.cells[0].cells.length : 0;
  const errorColumn = columns.findIndex((column) => column.name === 'error');
  const axes = columns.slice(2, 2 + data.axes);
  const results = columns.slice(2 + data.axes).filter((column) => column.name !== 'error');
  const variant = columns[1];
  const plotted = columns.filter((column) => column !== columns[errorColumn] && column.distinct > 0);
  const numeric = results.filter((column) => column.isNumber);
  const failed = errorColumn < 0 ? 0 : columns[errorColumn].cells.filter((cell) => columns[errorColumn].texts[cell] !== '').length;

  const varying = axes.filter((axis) => axis.distinct > 1);
  const choice = {
    x: varying[varying.length - 1] || axes[0] || columns[0],
    y: numeric.find((column) => column.name === 'step_time_us') || numeric.find((column) => column.distinct > 1) || numeric[0] || columns[0],
    colour: variant.distinct > 1 ? variant : varying.length > 1 ? varying[0] : null,
    logX: false, logY: false, lines: true,
  };
  const spread = (column) => {
    const values = column.numbers.filter((x) => x !== null);
    const low = Math.min(...values);
    return low > 0 ? Math.max(...values) / low : 0;
  };
  // Even ratios, as lo:hi:log:n gives them, want an axis of ratios.
  choice.logX = choice.x.isNumber && spread(choice.x) >= 30;
  choice.logY = choice.y.isNumber && spread(choice.y) >= 100;

  parent.append(G.headline(data, null, G.themeButton));
  parent.append(G.el('p', {class: 'soft'}, `${data.rows_in_all} rows of ${data.command}`,
    data.every > 1 ? `; every ${data.every}th point is plotted` : '', failed ? `; ${failed} have an error and are left out` : '', '.'));
  const select = (label, key, list, none) => {
    const box = G.el('select', {onchange: (event) => {
      choice[key] = event.target.value === '' ? null : columns.find((column) => column.name === event.target.value);
      chart.draw();
      update();
    }}, none && G.el('option', {value: ''}, none), list.map((column) => G.el('option', {
      value: column.name, selected: column === choice[key]}, column.name)));
    return G.el('label', {}, G.el('span', {class: 'soft small'}, `${label} `), box);
  };
  const check = (label, key) => G.el('label', {class: 'small'}, G.el('input', {type: 'checkbox', checked: choice[key], style: {minHeight: 'auto'},
    onchange: (event) => { choice[key] = event.target.checked; chart.draw(); }}), ` ${label}`);
  const section = G.el('section', {id: 'sweep'});
  parent.append(section);
  section.append(G.el('div', {class: 'tools'}, select('x', 'x', plotted), select('y', 'y', numeric.length ? numeric : plotted),
    select('colour', 'colour', plotted, 'none'), check('log x', 'logX'), check('log y', 'logY'), check('lines', 'lines')));

  const points = () => {
    const {x, y, colour} = choice;
    const out = [];
    for (let r = 0; r < rows; r++) {
      if (errorColumn >= 0 && columns[errorColumn].texts[columns[errorColumn].cells[r]] !== '') continue;
      const yv = y.numbers[y.cells[r]];
      const xv = x.isNumber ? x.numbers[x.cells[r]] : x.texts[x.cells[r]];
      if (yv === null || xv === null || (choice.logX && x.isNumber && xv <= 0) || (choice.logY && yv <= 0)) continue;
      out.push({r, xv, yv, group: colour ? colour.texts[colour.cells[r]] : ''});
    }
    return out;
  };
  const chart = G.chart(section, {
    height: Math.max(420, Math.min(620, Math.round(window.innerHeight * 0.62))), label: 'Results of the sweep',
    build: (width) => {
      const ink = G.ink();
      const {x, y, colour} = choice;
      const all = points();
      const numbers = Boolean(colour && colour.isNumber && colour.distinct > 4);
      const order = colour ? colour.texts.filter((text) => text !== '') : [''];
      if (colour && colour.isNumber) order.sort((a, b) => G.quantity(a).number - G.quantity(b).number);
      const groups = numbers ? [null] : order;
      const numberColour = (text) => {
        const values = colour.numbers.filter((v) => v !== null);
        const low = Math.min(...values);
        const high = Math.max(...values);
        const part = (colour.numbers[colour.texts.indexOf(text)] - low) / (high - low || 1);
        return G.ramp[Math.max(0, Math.min(G.ramp.length - 1, Math.floor(part * G.ramp.length)))];
      };
      const series = [];
      groups.forEach((group, i) => {
        const own = all.filter((point) => group === null || point.group === group);
        // A line for each combination of all that varies beside x: a grid is a family of curves.
        const lines = new Map();
        for (const point of own) {
          const key = [variant, ...axes].filter((column) => column !== x).map((column) => column.cells[point.r]).join(' ');
          if (!lines.has(key)) lines.set(key, []);
          lines.get(key).push(point);
        }
        const joined = choice.lines && lines.size <= lines_max && [...lines.values()].some((line) => line.length > 1)
          && [...lines.values()].every((line) => new Set(line.map((point) => point.xv)).size === line.length);
        for (const line of joined ? lines.values() : [own]) {
          if (x.isNumber) line.sort((a, b) => a.xv - b.xv || a.r - b.r);
          const colourOf = numbers ? numberColour(line[0].group) : G.seriesColours[i % G.seriesColours.length];
          series.push({
            type: joined ? 'line' : 'scatter', name: group === null ? '' : group, symbol: 'circle', showSymbol: own.length < 400,
            symbolSize: own.length > 2000 ? 3 : own.length > 300 ? 5 : 7, lineStyle: {width: lines.size > 6 ? 1.2 : 2, opacity: lines.size > 6 ? 0.7 : 1},
            itemStyle: {color: colourOf, opacity: joined ? 1 : 0.75}, emphasis: {focus: joined ? 'series' : 'none'}, large: own.length > 5000 && !numbers && !joined,
            data: line.map((point) => ({value: [point.xv, point.yv], r: point.r, ...(numbers && !joined ? {itemStyle: {color: numberColour(point.group)}} : {})})),
          });
        }
      });
      const axis = (column, log, more) => column.isNumber
        ? G.axis(column.name, (v) => G.quantityText(v, column.unit), {type: log ? 'log' : 'value', scale: false, minorTick: {show: log}, ...more})
        : {...G.axis(column.name, null, more), type: 'category', axisLabel: {color: ink.soft, hideOverlap: true}, data: column.texts.filter((text) => text !== '')};
      return {
        grid: {left: 84, right: 24, top: colour && !numbers ? 52 : 20, bottom: 60},
        legend: colour && !numbers ? {type: 'scroll', top: 0, left: 84, textStyle: {color: ink.text}, inactiveColor: ink.line, pageTextStyle: {color: ink.soft}} : undefined,
        xAxis: axis(x, choice.logX, {nameGap: 32, axisLine: {show: true, lineStyle: {color: ink.line}, onZero: false}}),
        yAxis: axis(y, choice.logY, {nameGap: 66}),
        dataZoom: [{type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, filterMode: 'none'}],
        tooltip: G.tooltip({trigger: 'item', formatter: (p) => {
          const r = p.data.r;
          return G.tip(`point ${columns[0].texts[columns[0].cells[r]]}, ${variant.texts[variant.cells[r]]}`,
            [...axes, ...results].slice(0, 18).map((column) => {
              const cell = column.cells[r];
              if (column.texts[cell] === '') return null;
              return [column.name, column.isNumber && !axes.includes(column) ? G.quantityText(column.numbers[cell], column.unit) : column.texts[cell]];
            }));
        }}),
        series,
      };
    },
  });
  const keys = G.el('div');
  section.append(keys);
  const update = () => {
    const {colour} = choice;
    keys.replaceChildren();
    if (!colour || !colour.isNumber || colour.distinct <= 4) return;
    const values = colour.numbers.filter((v) => v !== null);
    const low = Math.min(...values);
    const high = Math.max(...values);
    keys.append(G.legend([{group: colour.name}, ...G.ramp.map((c, i) => ({
      colour: c, text: `from ${G.quantityText(low + (high - low) * i / G.ramp.length, colour.unit)}`}))]));
  };
  update();

  // The best of each variant, and all rows.
  const y = choice.y;
  if (y.isNumber && y.name === 'step_time_us') {
    const best = new Map();
    points().forEach((point) => {
      const name = variant.texts[variant.cells[point.r]];
      if (!best.has(name) || best.get(name).yv > point.yv) best.set(name, point);
    });
    if (best.size > 0 && axes.length > 0) {
      section.append(G.el('h3', {}, 'Shortest step of each variant'));
      G.table(section, {rows: [...best], columns: [
        {title: 'variant', value: ([name]) => name},
        ...axes.map((axis) => ({title: axis.name, right: true, value: ([, point]) => axis.texts[axis.cells[point.r]]})),
        {title: 'step time', right: true, value: ([, point]) => point.yv, cell: ([, point]) => G.quantityText(point.yv, 's')}], sort: undefined});
    }
  }
  section.append(G.el('h3', {}, 'Rows'));
  const text = (column, r) => column.texts[column.cells[r]];
  G.table(section, {
    rows: Array.from({length: rows}, (_, r) => r), limit: 20, what: 'rows', placeholder: 'Search rows',
    search: (r) => columns.map((column) => text(column, r)).join(' '),
    columns: columns.filter((column) => column.distinct > 0).map((column) => ({
      title: column.name, right: column.isNumber, value: (r) => column.isNumber ? column.numbers[column.cells[r]] : text(column, r),
      cell: (r) => column.isNumber && results.includes(column) && text(column, r) !== '' ? G.quantityText(column.numbers[column.cells[r]], column.unit) : text(column, r)}))});
  G.sweepState = {choice, columns, chart, points};
};

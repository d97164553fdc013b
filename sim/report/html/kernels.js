// SPDX-License-Identifier: Apache-2.0
// Kernels: against the roofs, by the bytes they move, and ranked by their time.
'use strict';

/** Ops that do the same, as objects; times and counts per step. */
G.distinctOps = (run) => {
  const {ops} = run;
  const all = G.sumOf(ops.total_ns);
  return ops.name.map((name, i) => {
    const seconds = ops.total_ns[i] / 1e9;
    const flops = ops.flops[i] * ops.count[i] / seconds;
    const bytes = ops.bytes[i] * ops.count[i] / seconds;
    return {
      name: G.data.names[name], family: G.data.families[ops.family[i]], count: ops.count[i] / run.steps, share: ops.total_ns[i] / all,
      us: ops.total_ns[i] / 1e3 / run.steps, mean: ops.total_ns[i] / 1e3 / ops.count[i],
      flops: isFinite(flops) ? flops : 0, bytes: isFinite(bytes) ? bytes : 0, moved: ops.bytes[i],
      intensity: ops.flops[i] > 0 && ops.bytes[i] > 0 ? ops.flops[i] / ops.bytes[i] : 0};
  });
};

G.opTip = (op, run) => {
  const {peak, bandwidth, dtype} = run.device;
  return G.tip(op.name, [
    ['', G.familyNames[op.family]],
    ['time a step', `${G.time(op.us)}, ${G.percent(op.share)} of the GPU's work`],
    ['executions', `${G.number(op.count, 5)} of ${G.time(op.mean)}`],
    op.flops > 0 && ['arithmetic', `${G.scaled(op.flops, 'FLOP/s')}${peak ? `, ${G.percent(op.flops / peak)} of ${dtype} peak` : ''}`],
    op.bytes > 0 && ['memory traffic', `${G.scaled(op.bytes, 'B/s')}${bandwidth ? `, ${G.percent(op.bytes / bandwidth)} of peak` : ''}`],
    op.intensity > 0 && ['intensity', `${G.number(op.intensity)} FLOP/B`],
    op.moved > 0 && ['moves', `${G.bytes(op.moved)} each time`],
  ]);
};

G.logTicks = (x, unit) => G.scaled(x, unit, 2);
G.bubble = (share) => 6 + 34 * Math.sqrt(Math.min(1, share * 2));
/** Ops that make up all but 0.5 % of the time: axes fit these. */
G.weighty = (ops) => {
  const sorted = [...ops].sort((a, b) => b.share - a.share);
  const all = G.sumOf(sorted.map((op) => op.share));
  let sum = 0;
  return sorted.filter((op) => {
    const needed = sum < 0.995 * all;
    sum += op.share;
    return needed;
  });
};
/** Says how many ops lie outside a plot with these ranges. */
G.outside = (ops, ranges, x, y) => {
  const within = (value, [low, high]) => value >= low && value <= high;
  const out = ops.filter((op) => !within(x(op), ranges.x) || !within(y(op), ranges.y));
  return out.length > 0 && G.el('p', {class: 'soft small'},
    `Outside: ${out.length} more kind${out.length > 1 ? 's' : ''} of op with ${G.percent(G.sumOf(out.map((op) => op.share)))} of the work.`);
};
/** Decade at or below, at or above. */
G.decadeBelow = (x) => 10 ** Math.floor(Math.log10(x));
G.decadeAbove = (x) => 10 ** Math.ceil(Math.log10(x));

/** Whole decades around `values`, nine at most: axes with more have no marks between their ends. */
G.decades = (values) => {
  const high = G.decadeAbove(Math.max(...values));
  return [Math.max(G.decadeBelow(Math.min(...values)), high / 1e9), high];
};

/** A series for each family, so that a colour means one. */
G.familySeries = (ops, x, y) => G.data.families.map((family) => ({
  type: 'scatter', name: G.familyNames[family], z: 3,
  data: ops.filter((op) => op.family === family).map((op) => ({value: [x(op), y(op)], op, symbolSize: G.bubble(op.share)})),
  itemStyle: {color: G.familyColours[family], opacity: 0.82, borderColor: G.ink().paper, borderWidth: 1},
  emphasis: {scale: 1.15, itemStyle: {opacity: 1, borderColor: G.ink().text}},
})).filter((series) => series.data.length > 0);

G.roofline = (parent, run, ops) => {
  const {peak, bandwidth, dtype} = run.device;
  const fit = G.weighty(ops);
  const xs = fit.map((op) => op.intensity);
  const ys = fit.map((op) => op.flops);
  // Dtypes of one rate share a line.
  const roofs = [];
  for (const {dtype: name, flops} of run.device.peaks) {
    const same = roofs.find((roof) => roof.flops === flops);
    if (same) same.names.push(name); else roofs.push({flops, names: [name]});
  }
  const top = Math.max(...ys, ...roofs.map((roof) => roof.flops));
  const [xMin, xMax] = G.decades([...xs, 1, bandwidth ? 4 * top / bandwidth : 1]);
  const [yMin, yMax] = G.decades([...ys, top * 1.2]);
  G.chart(parent, {
    height: 430, label: 'Roofline: achieved FLOP/s over arithmetic intensity',
    build: (width) => {
      const ink = G.ink();
      const narrow = width < 560;
      const lines = [];
      const active = peak;
      if (bandwidth) {
        const highest = Math.max(...roofs.map((roof) => roof.flops), 0);
        lines.push({
          type: 'line', symbol: 'none', silent: true, z: 2, lineStyle: {color: ink.text, width: 2}, tooltip: {show: false},
          data: [[Math.max(xMin, yMin / bandwidth), Math.max(xMin, yMin / bandwidth) * bandwidth], [highest / bandwidth, highest]],
          markPoint: {silent: true, symbol: 'circle', symbolSize: 1, data: [{coord: [Math.max(xMin, yMin / bandwidth) * 1.6, Math.max(xMin, yMin / bandwidth) * 1.6 * bandwidth]}],
            label: {show: true, position: 'right', offset: [4, 8], formatter: `memory ${G.scaled(bandwidth, 'B/s')}`, color: ink.text, fontSize: 12}}});
      }
      for (const roof of roofs) {
        const own = roof.names.includes(dtype);
        const from = bandwidth ? roof.flops / bandwidth : xMin;
        lines.push({
          type: 'line', symbol: 'none', silent: true, z: own ? 2 : 1, tooltip: {show: false},
          lineStyle: {color: own ? ink.text : ink.soft, width: own ? 2 : 1, type: own ? 'solid' : 'dashed', opacity: own ? 1 : 0.7},
          data: [[from, roof.flops], [xMax, roof.flops]],
          markPoint: {silent: true, symbol: 'circle', symbolSize: 1, data: [{coord: [xMax, roof.flops]}],
            label: {show: true, position: [-4, active && roof.flops < active ? 5 : -16], align: 'right', formatter: `${roof.names.join(', ')} ${G.scaled(roof.flops, narrow ? '' : 'FLOP/s')}`,
              color: own ? ink.text : ink.soft, fontSize: own ? 12 : 11}}});
      }
      return {
        grid: {left: 62, right: 16, top: 16, bottom: 50},
        xAxis: G.axis(narrow ? 'FLOP per byte of memory traffic' : 'arithmetic intensity, FLOP per byte of memory traffic', (x) => G.number(x), {
          type: 'log', min: xMin, max: xMax, nameGap: 28, axisLine: {show: true, lineStyle: {color: ink.line}, onZero: false}}),
        yAxis: G.axis('FLOP/s', (x) => G.logTicks(x, ''), {type: 'log', min: yMin, max: yMax, nameGap: 46}),
        tooltip: G.tooltip({trigger: 'item', formatter: (p) => p.data && p.data.op ? G.opTip(p.data.op, run) : ''}),
        series: [...lines, ...G.familySeries(ops, (op) => op.intensity, (op) => op.flops)],
      };
    },
  });
  return {x: [xMin, xMax], y: [yMin, yMax]};
};

/** Of kernels whose arithmetic nobody counts: how close to the memory's bandwidth. */
G.bandwidthPlot = (parent, run, ops) => {
  const {bandwidth} = run.device;
  const fit = G.weighty(ops);
  const xs = fit.map((op) => op.moved);
  const ys = fit.map((op) => op.bytes);
  const [xMin, xMax] = G.decades(xs);
  const [yMin, yMax] = G.decades([...ys, (bandwidth || 0) * 1.2]);
  G.chart(parent, {
    height: 430, label: 'Achieved memory traffic over bytes moved',
    build: () => {
      const ink = G.ink();
      return {
        grid: {left: 62, right: 16, top: 16, bottom: 50},
        xAxis: G.axis('bytes moved by one execution', (x) => G.logTicks(x, 'B'), {
          type: 'log', min: xMin, max: xMax, nameGap: 28,
          axisLine: {show: true, lineStyle: {color: ink.line}, onZero: false}}),
        yAxis: G.axis('memory traffic, B/s', (x) => G.logTicks(x, ''), {
          type: 'log', min: yMin, max: yMax, nameGap: 46}),
        tooltip: G.tooltip({trigger: 'item', formatter: (p) => p.data && p.data.op ? G.opTip(p.data.op, run) : ''}),
        series: [...G.familySeries(ops, (op) => op.moved, (op) => op.bytes), bandwidth && {
          type: 'line', symbol: 'none', silent: true, tooltip: {show: false}, data: [], markLine: {
            silent: true, symbol: 'none', data: [{yAxis: bandwidth}], lineStyle: {color: ink.text, width: 2, type: 'solid'},
            label: {position: 'insideStartTop', formatter: `memory ${G.scaled(bandwidth, 'B/s')}`, color: ink.text, fontSize: 12}}}].filter(Boolean),
      };
    },
  });
  return {x: [xMin, xMax], y: [yMin, yMax]};
};

/** Kernels of one name together. */
G.rankedKernels = (run, ops) => {
  const byName = new Map();
  for (const op of ops) {
    const key = `${op.family} ${op.name}`;
    if (!byName.has(key)) byName.set(key, {name: op.name, family: op.family, count: 0, us: 0, share: 0, flops: 0, bytes: 0, unknown: false});
    const sum = byName.get(key);
    sum.count += op.count;
    sum.us += op.us;
    sum.share += op.share;
    sum.flops += op.flops * op.us;
    sum.bytes += op.bytes * op.us;
    sum.unknown = sum.unknown || op.moved === 0;
  }
  const {peak, bandwidth} = run.device;
  return [...byName.values()].map((kernel) => {
    const flops = kernel.flops / kernel.us;
    const bytes = kernel.unknown ? 0 : kernel.bytes / kernel.us;
    const compute = peak && flops > 0 ? flops / peak : 0;
    const memory = bandwidth && bytes > 0 ? bytes / bandwidth : 0;
    return {...kernel, flops, bytes, mean: kernel.us / kernel.count, roof: Math.max(compute, memory), which: compute >= memory ? 'compute' : 'memory'};
  });
};

G.kernels = (parent, run) => {
  const section = G.section('kernels', 'Kernels');
  parent.append(section);
  const ops = G.distinctOps(run);
  if (!ops.length) {
    section.append(G.el('p', {class: 'lead'}, 'No GPU op runs in this step.'));
    return;
  }
  // One byte stands for none: what an op reads and writes stays in the cache.
  const cached = ops.filter((op) => op.moved === 1);
  const onRoofs = ops.filter((op) => op.intensity > 0 && op.flops > 0 && op.moved > 1);
  const moving = ops.filter((op) => op.intensity === 0 && op.bytes > 0 && op.moved > 1);
  const shareOf = (list) => G.percent(G.sumOf(list.map((op) => op.share)));
  const rest = ops.filter((op) => op.bytes === 0);
  // Of a replayed trace only copies say what they move: nothing to plot.
  const {peak, bandwidth} = run.device;
  if (G.sumOf(rest.map((op) => op.share)) > 0.99 || (!peak && !bandwidth)) onRoofs.length = moving.length = 0;
  section.append(G.el('p', {class: 'lead'}, onRoofs.length || moving.length ? 'Every kernel of the step; the area of a circle is its share of the GPU\'s work. The further below the roof above it, the more a better kernel could win. '
      : !peak && !bandwidth ? 'No hardware is named, so there are no roofs to hold them against. '
        : 'It is not known what they compute and move, so they cannot be held against the roofs. ',
    rest.length && (onRoofs.length || moving.length) ? `Not in the plots, since their traffic is not known: ${shareOf(rest)} of the GPU's work. ` : '',
    cached.length && (onRoofs.length || moving.length) ? `Not in the plots, since they move nothing to or from device memory: ${shareOf(cached)}.` : ''));
  if (onRoofs.length || moving.length) {
    const split = G.el('div', {class: 'split', style: onRoofs.length && moving.length ? {} : {gridTemplateColumns: 'minmax(0, 1fr)'}});
    section.append(split);
    if (onRoofs.length) {
      const box = G.el('div', {}, G.el('h3', {}, `Roofline: ${shareOf(onRoofs)} of the GPU's work`));
      split.append(box);
      const ranges = G.roofline(box, run, onRoofs);
      box.append(G.outside(onRoofs, ranges, (op) => op.intensity, (op) => op.flops) || '');
    }
    if (moving.length) {
      const box = G.el('div', {}, G.el('h3', {}, `Kernels that only move data: ${shareOf(moving)}`));
      split.append(box);
      const ranges = G.bandwidthPlot(box, run, moving);
      box.append(G.outside(moving, ranges, (op) => op.moved, (op) => op.bytes) || '');
    }
    const families = G.data.families.filter((family) => [...onRoofs, ...moving].some((op) => op.family === family));
    section.append(G.legend(families.map((family) => ({text: G.familyNames[family], colour: G.familyColours[family]}))));
  }
  section.append(G.el('h3', {}, 'Ranking'));
  const ranked = G.rankedKernels(run, ops);
  const known = onRoofs.length + moving.length > 0;
  const most = Math.max(...ranked.map((kernel) => kernel.share));
  G.table(section, {
    rows: ranked, sort: 1, limit: 15, what: 'kernels', placeholder: 'Search kernels or families',
    search: (kernel) => `${kernel.name} ${G.familyNames[kernel.family]}`,
    columns: [
      {title: 'kernel', name: true, value: (kernel) => kernel.name, cell: (kernel) => [G.swatch(G.familyColours[kernel.family]), kernel.name]},
      {title: 'time a step', right: true, value: (kernel) => kernel.us, cell: (kernel) => G.time(kernel.us)},
      {title: 'share', right: true, value: (kernel) => kernel.share, cell: (kernel) => G.shareCell(kernel.share, G.familyColours[kernel.family], most)},
      {title: 'count', right: true, value: (kernel) => kernel.count, cell: (kernel) => G.number(kernel.count, 5)},
      {title: 'mean', right: true, value: (kernel) => kernel.mean, cell: (kernel) => G.time(kernel.mean)},
      known && {title: 'FLOP/s', right: true, value: (kernel) => kernel.flops, cell: (kernel) => kernel.flops > 0 ? G.scaled(kernel.flops, '') : '–'},
      known && {title: 'B/s', right: true, value: (kernel) => kernel.bytes, cell: (kernel) => kernel.bytes > 0 ? G.scaled(kernel.bytes, '') : '–'},
      known && {title: 'of roof', right: true, help: 'Of the roof that it is nearer to: compute or memory', value: (kernel) => kernel.roof,
        cell: (kernel) => kernel.roof > 0 ? `${G.percent(kernel.roof)} ${kernel.which}` : '–'},
    ].filter(Boolean)});
};

// SPDX-License-Identifier: Apache-2.0
// Device memory over time, by what it is taken for.
'use strict';

/** Times and a list of values for each kind, at most about `most` moments: of each stretch its highest and its last. */
G.memoryCurve = (memory, most) => {
  const n = memory.t.length;
  const time = new Float64Array(n);
  let at = 0;
  memory.t.forEach((step, i) => { at += step; time[i] = at; });
  const kinds = memory.kinds.map((kind) => {
    const values = new Float64Array(n);
    kind.at.forEach((from, j) => values.fill(kind.bytes[j], from, j + 1 < kind.at.length ? kind.at[j + 1] : n));
    return {name: kind.name, values};
  });
  const total = new Float64Array(n);
  for (const kind of kinds) for (let i = 0; i < n; i++) total[i] += kind.values[i];
  let peak = 0;
  for (let i = 1; i < n; i++) if (total[i] > total[peak]) peak = i;
  const stretch = Math.max(1, Math.ceil(n / most));
  const places = [];
  for (let from = 0; from < n; from += stretch) {
    const to = Math.min(n, from + stretch);
    let highest = from;
    for (let i = from; i < to; i++) if (total[i] > total[highest]) highest = i;
    places.push(...new Set([highest, to - 1].sort((a, b) => a - b)));
  }
  return {time, kinds, total, peak, places};
};

G.memory = (parent, run, timeline) => {
  if (!run.memory && !run.memory_at_peak) return;
  const section = G.section('memory', 'Memory');
  parent.append(section);
  const capacity = run.device.capacity;
  const atPeak = run.memory_at_peak;
  const peakBytes = run.figures.peak_memory_bytes;
  section.append(G.el('p', {class: 'lead'}, 'At most ', G.el('b', {}, G.bytes(peakBytes)),
    capacity ? ` of the device's ${G.bytes(capacity)}` : '', atPeak && atPeak.at ? [', while ', G.el('b', {}, atPeak.at), ' runs'] : '', '. ',
    atPeak && atPeak.saved > 0 ? `Forward leaves ${G.bytes(atPeak.saved)} for backward. ` : '',
    run.memory ? 'Memory is taken where the host calls an op, which can be long before the GPU runs it.'
      : 'Over time it is not known here: what a CUDA graph uses lies in its pool from the start.'));
  if (run.memory) {
    const curve = G.memoryCurve(run.memory, 1500);
    const end = Math.max(run.timeline ? run.timeline.end_ns : 0, curve.time[curve.time.length - 1]);
    const GiB = 2 ** 30;
    const [unit, size] = curve.total[curve.peak] >= GiB / 4 ? ['GiB', GiB] : curve.total[curve.peak] >= 2 ** 20 ? ['MiB', 2 ** 20] : ['KiB', 1024];
    const last = curve.places[curve.places.length - 1];
    const points = (values) => [...curve.places.map((i) => [curve.time[i], values[i] / size]), [end, values[last] / size]];
    // Sums are drawn, the highest first and each later one over it: stacking by the library goes by the time, and moments
    // can share one.
    const sums = [];
    for (const kind of curve.kinds) sums.push(kind.values.map((value, i) => value + (sums.length ? sums[sums.length - 1][i] : 0)));
    const nearLimit = capacity && capacity < 2 * curve.total[curve.peak];
    const chart = G.chart(section, {
      height: 300, label: 'Device memory over time',
      build: (width) => {
        const ink = G.ink();
        const right = curve.time[curve.peak] > 0.6 * end;
        return {
          grid: {left: 62, right: 16, top: 28, bottom: 46},
          xAxis: G.axis('time', (ns) => G.time(ns / 1000, 4), {min: 0, max: end, nameGap: 26, splitLine: {show: false}, splitNumber: width < 560 ? 3 : 8}),
          yAxis: G.axis(unit, null, {nameGap: 44, max: nearLimit ? (value) => Math.max(value.max, capacity / size) * 1.04 : null}),
          dataZoom: [{type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, preventDefaultMouseMove: false, filterMode: 'none', throttle: 16}],
          tooltip: G.tooltip({
            trigger: 'axis', axisPointer: {type: 'line', lineStyle: {color: ink.soft}}, formatter: (list) => {
              const place = curve.places[Math.min(list[0].dataIndex, curve.places.length - 1)];
              return G.tip(`${G.time(curve.time[place] / 1000, 6)}: ${G.bytes(curve.total[place], 4)}`,
                curve.kinds.filter((kind) => kind.values[place] > 0).map((kind) => [G.words(kind.name), G.bytes(kind.values[place])]).reverse());
            }}),
          series: [...curve.kinds.map((kind, k) => ({
            type: 'line', name: G.words(kind.name), step: 'end', symbol: 'none', lineStyle: {width: 0}, emphasis: {disabled: true},
            areaStyle: {color: G.memoryColours[kind.name] || '#3f7fd9', opacity: 1}, data: points(sums[k])})).reverse(),
          {
            type: 'line', symbol: 'none', silent: true, data: points(curve.total), step: 'end', lineStyle: {color: ink.text, width: 1, opacity: 0.5},
            markPoint: {
              symbol: 'circle', symbolSize: 9, itemStyle: {color: ink.text}, data: [{coord: [curve.time[curve.peak], curve.total[curve.peak] / size]}],
              label: {show: true, position: right ? 'left' : 'right', distance: 8, color: ink.text, fontSize: 12, backgroundColor: ink.paper, padding: [2, 5], borderRadius: 4,
                formatter: `peak ${G.bytes(curve.total[curve.peak], 4)}${atPeak && atPeak.at ? `: ${atPeak.at}` : ''}`, width: Math.max(120, width * 0.4), overflow: 'truncate'}},
            markLine: nearLimit ? {silent: true, symbol: 'none', data: [{yAxis: capacity / size}], lineStyle: {color: G.causeColours.dispatch, width: 2},
              label: {position: 'insideStartTop', formatter: `device ${G.bytes(capacity)}`, color: ink.text}} : undefined,
          }],
        };
      },
    });
    // What the timeline shows, memory shows too.
    if (timeline) {
      timeline.listeners.push((from, to) => chart.instance && chart.instance.dispatchAction({type: 'dataZoom', startValue: from, endValue: to}));
    }
    section.append(G.legend(curve.kinds.map((kind) => ({text: G.words(kind.name), colour: G.memoryColours[kind.name] || '#3f7fd9'}))));
  }
  if (atPeak && atPeak.kinds.length) {
    section.append(G.el('h3', {}, 'At the peak'));
    const all = G.sumOf(atPeak.kinds.map((kind) => kind.bytes));
    const most = Math.max(...atPeak.kinds.map((kind) => kind.bytes));
    const narrow = G.el('div', {class: 'narrow'});
    section.append(narrow);
    G.table(narrow, {rows: atPeak.kinds, columns: [
      {title: 'taken for', cell: (kind) => [G.swatch(G.memoryColours[kind.name]), G.words(kind.name)]},
      {title: 'memory', right: true, cell: (kind) => G.bytes(kind.bytes)},
      {title: 'share', right: true, cell: (kind) => G.shareCell(kind.bytes / all, G.memoryColours[kind.name], most / all)}]});
  }
};

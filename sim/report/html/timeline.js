// SPDX-License-Identifier: Apache-2.0
// The timeline: idle time, host threads and streams as rows of bars.
//
// Of any number of bars only those in view are drawn, and what is too narrow to be told apart as one piece, as high as
// the share of its time that is filled, in the colours of what fills it: a redraw costs by the width of the screen.
'use strict';

G.doing = [
  {name: 'host work'}, {name: 'launch call'}, {name: 'CUDA graph launch'}, {name: 'waits for the GPU', wait: true},
  {name: 'waits for input', wait: true}, {name: 'waits for another thread', wait: true}, {name: 'other call'},
  {name: 'launch queue full', wait: true},
];
G.doingColour = (kind) => {
  const ink = G.ink();
  return [ink.work, ink.call, '#2f6fd0', G.causeColours.synchronization, G.causeColours.input, ink.call, ink.call, '#c2a51c'][kind];
};

/** Rows with absolute times: {label, kind, n, start, end, colour(i), ...}, of the variant `run`. */
G.timelineRows = (run) => {
  const {names, families, causes} = G.data;
  const tl = run.timeline;
  const decode = (row, what) => {
    const n = row.t.length;
    const start = new Float64Array(n);
    const end = new Float64Array(n);
    let at = 0;
    for (let i = 0; i < n; i++) {
      at += row.t[i];
      start[i] = at;
      end[i] = at + row.d[i];
    }
    return {n, start, end, what: row[what]};
  };
  const devices = new Set(tl.rows.filter((row) => row.kind === 'stream').map((row) => row.device));
  const rows = [{
    ...decode(tl.idle, 'cause'), kind: 'idle', label: devices.size > 1 ? 'all GPUs idle' : 'GPU idle',
    group: (row, i) => row.what[i], name: (row, i) => G.causeNames[causes[row.what[i]]], colour: (group) => G.causeColours[causes[group]],
  }];
  // Host threads, then the streams of each device together.
  const order = (row) => row.kind === 'host' ? -1 : row.device;
  for (const row of [...tl.rows].sort((a, b) => order(a) - order(b))) {
    if (row.kind === 'host') {
      rows.push({
        ...decode(row, 'n'), kind: 'host', label: `host ${row.label}`, doing: row.k,
        group: (r, i) => r.doing[i], name: (r, i) => names[r.what[i]], colour: G.doingColour,
      });
    } else {
      const stream = /^\d+$/.test(row.label) ? `stream ${row.label}` : row.label;
      rows.push({
        ...decode(row, 'o'), kind: 'stream', queued: row.q, lane: row.lane,
        label: `${devices.size > 1 ? `GPU ${row.device} ` : ''}${stream}${row.lane ? ` +${row.lane}` : ''}`,
        group: (r, i) => run.ops.family[r.what[i]], name: (r, i) => names[run.ops.name[r.what[i]]],
        colour: (group) => G.familyColours[families[group]],
      });
    }
  }
  return rows;
};

/** The first bar that ends after `at`. */
G.firstAfter = (row, at) => {
  let low = 0;
  let high = row.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] > at) high = middle; else low = middle + 1;
  }
  return low;
};

/** What is drawn between `from` and `to`: {row, start, end, first, count, busy, parts: [[group, share of its time]]}. */
G.pieces = (rows, from, to, nsPerPixel, matches) => {
  const out = [];
  rows.forEach((row, place) => {
    for (let i = G.firstAfter(row, from); i < row.n && row.start[i] < to;) {
      const first = i;
      const start = row.start[i];
      let end = row.end[i];
      const sums = new Map([[row.group(row, i), end - start]]);
      let busy = end - start;
      let matched = matches && matches(row, i) ? 1 : 0;
      i++;
      if (busy < 1.5 * nsPerPixel) {
        // Too narrow alone: with those that follow closely, up to a few pixels.
        while (i < row.n && row.start[i] - end < nsPerPixel && row.end[i] - row.start[i] < 1.5 * nsPerPixel && row.end[i] - start < 3 * nsPerPixel) {
          const group = row.group(row, i);
          sums.set(group, (sums.get(group) || 0) + row.end[i] - row.start[i]);
          busy += row.end[i] - row.start[i];
          if (matches && matches(row, i)) matched++;
          end = row.end[i];
          i++;
        }
      }
      // What is narrower than a pixel is drawn a pixel wide, and so much lower.
      const width = Math.max(end - start, nsPerPixel);
      const parts = [...sums].sort((a, b) => a[0] - b[0]).map(([group, sum]) => [group, sum / width]);
      out.push({row: place, start, end, first, count: i - first, busy: Math.min(1, busy / width), parts, matched});
    }
  });
  return out;
};

G.timelineTip = (run, rows, piece) => {
  const row = rows[piece.row];
  const time = (ns) => G.time(ns / 1000, 6);
  const span = [`${time(piece.start)} – ${time(piece.end)}`];
  if (piece.count > 1) {
    const sums = new Map();
    for (let i = piece.first; i < piece.first + piece.count; i++) {
      const name = row.name(row, i);
      sums.set(name, (sums.get(name) || 0) + row.end[i] - row.start[i]);
    }
    const top = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, ns]) => [name, time(ns)]);
    return G.tip(`${piece.count} in ${time(piece.end - piece.start)}`, [['from – to', span], ['of it busy', G.percent(piece.busy)], ...top],
      'Zoom in to tell them apart.');
  }
  const i = piece.first;
  const length = row.end[i] - row.start[i];
  if (row.kind === 'idle') {
    const cause = G.data.causes[row.what[i]];
    return G.tip(`idle: ${G.causeNames[cause]}`, [['from – to', span], ['for', time(length)]], G.causeMeanings[cause]);
  }
  if (row.kind === 'host') {
    return G.tip(row.name(row, i), [['', G.doing[row.doing[i]].name], ['from – to', span], ['for', time(length)]]);
  }
  const op = row.what[i];
  const family = G.data.families[run.ops.family[op]];
  const flops = run.ops.flops[op] / length * 1e9;
  const bytes = run.ops.bytes[op] / length * 1e9;
  return G.tip(row.name(row, i), [
    ['', G.familyNames[family]], ['from – to', span], ['runs for', time(length)], ['launched before', time(row.queued[i])],
    flops > 0 && ['arithmetic', `${G.scaled(flops, 'FLOP/s')}${run.device.peak ? `, ${G.percent(flops / run.device.peak)} of peak` : ''}`],
    bytes > 0 && ['memory traffic', `${G.scaled(bytes, 'B/s')}${run.device.bandwidth ? `, ${G.percent(bytes / run.device.bandwidth)} of peak` : ''}`],
  ]);
};

G.timeline = (parent, run) => {
  const tl = run.timeline;
  const f = run.figures;
  const section = G.section('timeline', 'Timeline');
  parent.append(section);
  if (!tl) return null;
  const rows = G.timelineRows(run);
  const all = tl.shown_ns || tl.end_ns;
  const {steps} = run;
  section.append(G.el('p', {class: 'lead'},
    `${steps > 1 ? `${steps} steps` : 'One step'} from an idle machine, ${G.time(f.makespan_us)} in all`,
    steps === 1 && f.steady && Math.abs(f.makespan_us / f.step_time_us - 1) > 0.005 ? ` (in the steady state a step takes ${G.time(f.step_time_us)}; --steps N shows several)` : '', '. ',
    tl.shown_ns ? `Only the first ${G.time(tl.shown_ns / 1000)} are drawn: there are more ops and calls than a page can hold. ` : '',
    'Drag to pan; Ctrl and the wheel, a pinch or the buttons zoom. Bars too narrow to be told apart are joined: their height is the share of the time that they fill.'));

  const view = {from: 0, to: all, pieces: [], matches: null, found: [], at: -1};
  const rowHeight = rows.length > 24 ? 18 : 26;
  const grid = (width) => ({left: width < 560 ? 74 : 128, right: 14, top: 8, bottom: 74});
  const inPlot = (width) => Math.max(1, width - grid(width).left - grid(width).right);
  let chart;

  const search = G.el('input', {type: 'search', placeholder: 'Find a kernel or call; Enter goes to the next', 'aria-label': 'Find in the timeline',
    oninput: () => { find(search.value); refresh(); },
    onkeydown: (event) => { if (event.key === 'Enter' && view.found.length) next(event.shiftKey ? -1 : 1); }});
  const found = G.el('span', {class: 'soft small'});
  const zoomBy = (factor) => {
    const middle = (view.from + view.to) / 2;
    const half = Math.min(all, (view.to - view.from) * factor) / 2;
    zoom(middle - half, middle + half);
  };
  const panBy = (part) => {
    const by = Math.max(-view.from, Math.min(all - view.to, (view.to - view.from) * part));
    zoom(view.from + by, view.to + by);
  };
  const zoom = (from, to) => chart.instance && chart.instance.dispatchAction({
    type: 'dataZoom', dataZoomIndex: 0, startValue: Math.max(0, from), endValue: Math.min(all, to)});
  section.append(G.el('div', {class: 'tools'},
    G.el('button', {title: 'Zoom in', 'aria-label': 'Zoom in', onclick: () => zoomBy(1 / 2)}, '+'),
    G.el('button', {title: 'Zoom out', 'aria-label': 'Zoom out', onclick: () => zoomBy(2)}, '−'),
    G.el('button', {title: 'Back', 'aria-label': 'Pan back', onclick: () => panBy(-0.5)}, '←'),
    G.el('button', {title: 'Forward', 'aria-label': 'Pan forward', onclick: () => panBy(0.5)}, '→'),
    G.el('button', {title: 'All of it', onclick: () => zoom(0, all)}, 'Fit'), search, found));

  const find = (text) => {
    const words = text.trim().toLowerCase();
    view.found = [];
    view.at = -1;
    if (!words) {
      view.matches = null;
      found.textContent = '';
      return;
    }
    const known = new Map();
    view.matches = (row, i) => {
      const name = row.name(row, i);
      if (!known.has(name)) known.set(name, name.toLowerCase().includes(words));
      return known.get(name);
    };
    let time = 0;
    rows.forEach((row, place) => {
      for (let i = 0; i < row.n; i++) {
        if (!view.matches(row, i)) continue;
        view.found.push([place, i]);
        if (row.kind === 'stream') time += row.end[i] - row.start[i];
      }
    });
    // Streams first: kernels are what is looked for.
    const isStream = ([place]) => rows[place].kind === 'stream' ? 0 : 1;
    view.found.sort((a, b) => isStream(a) - isStream(b) || rows[a[0]].start[a[1]] - rows[b[0]].start[b[1]]);
    found.textContent = `${view.found.length} found${time ? `, ${G.time(time / 1000)} on the GPU` : ''}`;
  };
  const next = (step) => {
    view.at = (view.at + step + view.found.length) % view.found.length;
    const [place, i] = view.found[view.at];
    const row = rows[place];
    const around = Math.max(8 * (row.end[i] - row.start[i]), 20000);
    zoom(row.start[i] - around, row.end[i] + around);
  };

  const makePieces = () => {
    const width = chart.instance.getWidth();
    view.pieces = G.pieces(rows, view.from, view.to, (view.to - view.from) / inPlot(width), view.matches);
    return view.pieces.map((piece) => [piece.row, piece.start, piece.end]);
  };
  const render = (params, api) => {
    const piece = view.pieces[params.dataIndex];
    if (!piece) return null;
    const row = rows[piece.row];
    const [left, middle] = api.coord([piece.start, piece.row]);
    const [right] = api.coord([piece.end, piece.row]);
    const height = Math.round(rowHeight * 0.74);
    const area = params.coordSys;
    // Pieces of several bars fill whole pixels, or their edges would show where there are none.
    const edge = piece.count > 1 ? Math.round : (at) => at;
    const x = Math.max(edge(left), area.x);
    const width = Math.max(piece.count > 1 ? 1 : 0.7, Math.min(edge(right), area.x + area.width) - x);
    if (x > area.x + area.width) return null;
    const faded = view.matches && !piece.matched ? 0.14 : 1;
    const bottom = middle + height / 2;
    let filled = 0;
    const part = ([group, share]) => {
      const wait = row.kind === 'host' && G.doing[group].wait;
      const colour = row.colour(group);
      // A single op of a stream is seen however short it is.
      const size = Math.max(1, height * (piece.count === 1 && width >= 1.5 ? 1 : share));
      const y = Math.max(middle - height / 2, bottom - filled - size);
      filled += size;
      return {
        type: 'rect', transition: [], shape: {x, y, width, height: size, r: width > 6 && piece.count === 1 ? 2 : 0},
        style: wait ? {fill: colour, opacity: faded * (piece.count > 1 ? 0.45 : 0.3), stroke: colour, lineWidth: width > 3 && piece.count === 1 ? 1 : 0}
          : {fill: colour, opacity: faded},
        emphasis: {style: {stroke: G.ink().text, lineWidth: 1.5, opacity: 1}}};
    };
    if (piece.parts.length > 1) {
      // The empty rest answers to the mouse as well.
      const whole = {type: 'rect', shape: {x, y: middle - height / 2, width, height}, style: {fill: 'transparent'}};
      return {type: 'group', transition: [], children: [whole, ...piece.parts.map(part)]};
    }
    const bar = part(piece.parts[0]);
    const wait = row.kind === 'host' && G.doing[piece.parts[0][0]].wait;
    if (piece.count === 1 && width > 44) {
      bar.textConfig = {position: 'insideLeft', distance: 5};
      bar.textContent = {type: 'text', style: {
        text: row.name(row, piece.first), width: width - 9, overflow: 'truncate', ellipsis: '…', fontSize: 11, opacity: faded,
        fill: wait || (row.kind === 'host' && piece.parts[0][0] === 0 && !G.isDark()) ? G.ink().text : '#fff'}};
    }
    return bar;
  };

  chart = G.chart(section, {
    height: 82 + rowHeight * rows.length, label: 'Timeline of the GPU and the host',
    build: (width) => {
      const ink = G.ink();
      const narrow = width < 560;
      return {
        grid: grid(width),
        xAxis: G.axis('', (ns) => G.time(ns / 1000, Math.max(4, 2 + Math.ceil(Math.log10(ns / Math.max(1, view.to - view.from) + 1)) + 1)), {
          min: 0, max: all, position: 'bottom', splitNumber: narrow ? 3 : 8, axisLine: {show: true, lineStyle: {color: ink.line}}}),
        yAxis: {
          type: 'category', inverse: true, data: rows.map((row) => row.label), axisTick: {show: false}, axisLine: {show: false},
          splitArea: {show: true, areaStyle: {color: [ink.panel, ink.paper]}},
          axisLabel: {color: ink.soft, fontSize: 12, width: narrow ? 66 : 116, overflow: 'truncate', interval: 0}},
        dataZoom: [
          {type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, moveOnMouseMove: true, preventDefaultMouseMove: false,
            filterMode: 'none', throttle: 16, minValueSpan: 100, startValue: view.from, endValue: view.to},
          {type: 'slider', filterMode: 'none', height: 20, bottom: 12, throttle: 16, minValueSpan: 100, startValue: view.from, endValue: view.to,
            labelFormatter: (ns) => G.time(ns / 1000), textStyle: {color: ink.soft}, borderColor: ink.line, fillerColor: 'rgba(63,127,217,0.16)',
            brushSelect: false, showDetail: !narrow}],
        tooltip: G.tooltip({trigger: 'item', formatter: (p) => view.pieces[p.dataIndex] ? G.timelineTip(run, rows, view.pieces[p.dataIndex]) : ''}),
        series: [{
          id: 'bars', type: 'custom', renderItem: render, encode: {x: [1, 2], y: 0}, clip: true, data: makePieces(), progressive: 0,
          markLine: tl.steps_ns.length > 1 ? {
            symbol: 'none', silent: true, label: {show: false}, lineStyle: {color: ink.soft, type: 'dashed', width: 1},
            data: tl.steps_ns.map((ns) => ({xAxis: ns}))} : undefined,
        }],
      };
    },
    ready: (instance) => {
      instance.on('datazoom', () => {
        // What the axis shows now, whatever moved it.
        const {left, right} = grid(instance.getWidth());
        view.from = Math.max(0, instance.convertFromPixel({xAxisIndex: 0}, left));
        view.to = Math.min(all, instance.convertFromPixel({xAxisIndex: 0}, instance.getWidth() - right));
        refresh();
        for (const listener of view.listeners) listener(view.from, view.to);
      });
    },
  });
  view.listeners = [];
  view.zoom = zoom;
  let waiting = false;
  const refresh = () => {
    if (waiting || !chart.instance) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (chart.box.isConnected) chart.instance.setOption({series: [{id: 'bars', data: makePieces()}]});
    });
  };

  const streams = rows.filter((row) => row.kind === 'stream');
  const hosts = rows.filter((row) => row.kind === 'host');
  const present = (list, places) => [...places].filter((place) => list.some((row) => {
    for (let i = 0; i < row.n; i++) if (row.group(row, i) === place) return true;
    return false;
  }));
  section.append(G.legend([
    {group: 'GPU'}, ...present(streams, G.data.families.keys()).map((i) => ({text: G.familyNames[G.data.families[i]], colour: G.familyColours[G.data.families[i]]})),
    {group: 'idle'}, ...present(rows.slice(0, 1), G.data.causes.keys()).map((i) => ({text: G.causeNames[G.data.causes[i]], colour: G.causeColours[G.data.causes[i]],
      title: G.causeMeanings[G.data.causes[i]]})),
    {group: 'host'}, ...present(hosts, G.doing.keys()).map((i) => ({text: G.doing[i].name, colour: ({0: 'var(--work)', 1: 'var(--call)', 5: 'var(--call)', 6: 'var(--call)'})[i] || G.doingColour(i), kind: G.doing[i].wait ? 'wait' : null}))]));
  G.timelineView = {view, rows, chart};
  return view;
};

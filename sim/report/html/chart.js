// SPDX-License-Identifier: Apache-2.0
// Charts: made when they come near the screen, drawn anew when the theme or their width changes, all at once
// for the printer.
'use strict';

/**
 * `build(width)` gives the option, `ready(instance)` is called once. Returns {box, instance, draw}; `instance`
 * is null until the chart has been made.
 */
G.chart = (parent, {height, label, build, ready}) => {
  const box = G.el('div', {class: 'chart', role: 'img', 'aria-label': label, style: {height: `${height}px`}});
  // The wheel alone scrolls the page: the library would stop it over any plot that can be zoomed.
  box.addEventListener('wheel', (event) => { if (!event.ctrlKey && !event.metaKey) event.stopPropagation(); }, {capture: true, passive: true});
  parent.append(box);
  const chart = {box, instance: null, width: 0};
  chart.make = () => {
    if (chart.instance || !box.isConnected) return;
    // Paper has more dots than the screen.
    const sharpness = document.body.classList.contains('printing') ? 3 : window.devicePixelRatio;
    chart.instance = echarts.init(box, null, {renderer: 'canvas', devicePixelRatio: sharpness});
    chart.draw();
    if (ready) ready(chart.instance);
  };
  chart.remake = () => {
    if (chart.instance) chart.instance.dispose();
    chart.instance = null;
    chart.make();
  };
  chart.draw = () => {
    if (!chart.instance) return;
    chart.width = chart.instance.getWidth();
    const ink = G.ink();
    chart.instance.setOption({
      animation: false,
      textStyle: {fontFamily: getComputedStyle(document.body).fontFamily, color: ink.text},
      aria: {enabled: false},
      ...build(chart.width),
    }, {notMerge: true});
    if (chart.afterDraw) chart.afterDraw();
  };
  chart.resize = () => {
    if (!chart.instance || box.clientWidth === chart.width || box.clientWidth === 0) return;
    chart.instance.resize();
    chart.draw();
  };
  G.charts.push(chart);
  if (G.near) { G.near.observe(box); G.sizes.observe(box); } else chart.make();
  return chart;
};

G.ofBox = (box) => G.charts.find((chart) => chart.box === box);
G.near = window.IntersectionObserver && new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    G.near.unobserve(entry.target);
    const chart = G.ofBox(entry.target);
    if (chart) chart.make();
  }
}, {rootMargin: '400px'});
G.sizes = window.ResizeObserver && new ResizeObserver((entries) => {
  for (const entry of entries) {
    const chart = G.ofBox(entry.target);
    if (chart) chart.resize();
  }
});

/** Charts whose box has left the page. */
G.sweepCharts = () => {
  G.charts = G.charts.filter((chart) => {
    if (chart.box.isConnected) return true;
    if (G.near) { G.near.unobserve(chart.box); G.sizes.unobserve(chart.box); }
    if (chart.instance) chart.instance.dispose();
    return false;
  });
};

// On paper: light, narrow, everything drawn.
window.addEventListener('beforeprint', () => {
  G.themeBeforePrint = document.documentElement.dataset.theme;
  document.body.classList.add('printing');
  document.documentElement.dataset.theme = 'light';
  for (const chart of G.charts) chart.remake();
});
window.addEventListener('afterprint', () => {
  document.body.classList.remove('printing');
  document.documentElement.dataset.theme = G.themeBeforePrint;
  for (const chart of G.charts) chart.remake();
});

/** A tooltip in the page's own colours. */
G.tooltip = (more) => {
  const ink = G.ink();
  return {
    backgroundColor: ink.panel, borderColor: ink.line, textStyle: {color: ink.text}, padding: [8, 12], confine: true,
    transitionDuration: 0, ...more};
};
/** A value axis. `format`: of its labels. */
G.axis = (name, format, more) => {
  const ink = G.ink();
  return {
    type: 'value', name, nameLocation: 'middle', nameTextStyle: {color: ink.soft, fontSize: 12},
    axisLabel: {color: ink.soft, fontSize: 12, formatter: format, hideOverlap: true}, axisLine: {show: false},
    axisTick: {show: false}, splitLine: {lineStyle: {color: ink.line}}, minorSplitLine: {show: false}, ...more};
};

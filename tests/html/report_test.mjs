// SPDX-License-Identifier: Apache-2.0
// node report_test.mjs GPUSIM SOURCE_DIR: opens reports in headless Chromium as a reader would. Exits with 77 (skipped)
// where Chromium or the plotting library is missing.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Browser, findChromium} from './browser.mjs';

const [gpusim, source] = process.argv.slice(2);
const chromium = findChromium();
const skip = (why) => {
  console.log(`skipped: ${why}`);
  process.exit(77);
};
if (!chromium) skip('there is no Chromium (Debian: apt-get install chromium)');

const folder = mkdtempSync(join(tmpdir(), 'gpusim-html-'));
const file = (name) => join(folder, name);
const run = (...args) => {
  const result = spawnSync(gpusim, args, {encoding: 'utf8'});
  if (result.status === 2 && /ECharts/.test(result.stderr)) skip('gpusim was built without ECharts (sh cmake/install_echarts.sh)');
  if (result.status !== 0) throw new Error(`gpusim ${args.join(' ')}: exit ${result.status}\n${result.stderr}`);
  return result;
};

let checks = 0;
const check = (holds, claim) => {
  checks++;
  if (!holds) throw new Error(`not so: ${claim}`);
};

/** Opens a report and waits until its first plot is there. */
const open = async (browser, path, options) => {
  const page = await browser.page(options);
  await page.open(path);
  await page.until('G.charts.some((chart) => chart.instance)', 'the first plot');
  return page;
};

/** Whatever happened in the page: no error was logged and nothing was asked of a network. */
const clean = async (page) => {
  check(page.errors.length === 0, `the page logs no errors, but: ${page.errors.join('; ')}`);
  const foreign = page.requests.filter((url) => !url.startsWith('file:') && !url.startsWith('data:'));
  check(foreign.length === 0, `nothing is loaded, but: ${foreign.join(' ')}`);
  await page.close();
};

const tests = {
  async 'The first screen says what a step takes, where it goes and what to do'(browser) {
    run('run', join(source, 'scenarios/train_gpt2.yaml'), '--html', file('train.html'));
    check(statSync(file('train.html')).size < 3e6, 'a report of three training steps is smaller than 3 MB');
    const page = await open(browser, file('train.html'));
    const text = await page.eval('document.querySelector("#page").innerText');
    for (const words of ['A training step of GPT-2', 'Step time', 'GPU busy', 'What to do', 'Where the step goes', 'MFU', 'Peak memory']) {
      check(text.includes(words), `it says "${words}"`);
    }
    const sums = await page.eval(`G.data.variants.map((run) => {
      const parts = G.sumOf(G.busyByFamily(run)) + G.sumOf(G.idleByCause(run));
      return Math.abs(parts / run.figures.step_time_us - 1); })`);
    check(sums.length === 3 && sums.every((error) => error < 1e-6), 'families and causes add up to the step of each variant');
    await clean(page);
  },

  async 'The timeline zooms by wheel and buttons, pans by dragging, and says what is under the mouse'(browser) {
    const page = await open(browser, file('train.html'), {height: 1400});
    await page.eval('document.querySelector("#timeline").scrollIntoView({behavior: "instant"})');
    await page.until('G.timelineView && G.timelineView.chart.instance', 'the timeline');
    const range = () => page.eval('[G.timelineView.view.from, G.timelineView.view.to]');
    const [, all] = await range();
    const box = await page.eval(`(() => { const b = G.timelineView.chart.box.getBoundingClientRect(); return {x: b.x, y: b.y, width: b.width, height: b.height}; })()`);
    const middle = {x: box.x + box.width / 2, y: box.y + 40};

    await page.mouse('mouseMoved', middle.x, middle.y);
    const scrolled = await page.eval('scrollY');
    await page.mouse('mouseWheel', middle.x, middle.y, {deltaX: 0, deltaY: -60});
    await page.until(`scrollY < ${scrolled}`, 'the wheel alone scrolls the page');
    await page.eval(`window.scrollTo({top: ${scrolled}, behavior: 'instant'})`);
    check((await range())[1] === all, 'and zooms nothing');
    await page.mouse('mouseWheel', middle.x, middle.y, {deltaX: 0, deltaY: -240, modifiers: 2});
    await page.until(`G.timelineView.view.to - G.timelineView.view.from < 0.95 * ${all}`, 'Ctrl and the wheel zoom in');
    const [from, to] = await range();
    check(from > 0 && to < all, 'the wheel zooms around the mouse');

    await page.mouse('mousePressed', middle.x, middle.y, {button: 'left', clickCount: 1});
    for (let i = 1; i <= 6; i++) await page.mouse('mouseMoved', middle.x + 20 * i, middle.y, {button: 'left', buttons: 1});
    await page.mouse('mouseReleased', middle.x + 120, middle.y, {button: 'left', clickCount: 1});
    await page.until(`G.timelineView.view.from < ${from} - 1`, 'dragging pans');

    // As near as the longest kernel: then its bar bears its name, and hovering it tells more.
    const kernel = await page.eval(`(() => {
      const {view, rows} = G.timelineView;
      const place = rows.findIndex((row) => row.kind === 'stream');
      const row = rows[place];
      let longest = 0;
      for (let i = 0; i < row.n; i++) if (row.end[i] - row.start[i] > row.end[longest] - row.start[longest]) longest = i;
      view.zoom(row.start[longest], row.end[longest]);
      return {place, name: row.name(row, longest), start: row.start[longest], end: row.end[longest]}; })()`);
    await page.until(`Math.abs(G.timelineView.view.from - ${kernel.start}) < 0.02 * ${kernel.end - kernel.start}`, 'a kernel can be zoomed to');
    const at = await page.eval(`G.timelineView.chart.instance.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [${(kernel.start + kernel.end) / 2}, ${kernel.place}])`);
    await page.eval('new Promise((done) => setTimeout(done, 100))');
    await page.mouse('mouseMoved', box.x + at[0] - 3, box.y + at[1]);
    await page.mouse('mouseMoved', box.x + at[0], box.y + at[1]);
    await page.until('document.querySelector("#timeline .tip")', 'a tooltip');
    const tip = await page.eval('document.querySelector("#timeline .tip").innerText');
    check(tip.includes(kernel.name) && tip.includes('runs for'), `the tooltip tells of ${kernel.name}: ${tip}`);

    await page.eval(`[...document.querySelectorAll('#timeline button')].find((button) => button.textContent === 'Fit').click()`);
    await page.until(`G.timelineView.view.to - G.timelineView.view.from > 0.99 * ${all}`, 'Fit shows all of it');
    const drawn = await page.eval('G.timelineView.view.pieces.length');
    check(drawn > 50 && drawn < 6000, `what is drawn depends on the width of the screen, not on the number of ops: ${drawn}`);
    await clean(page);
  },

  async 'Idle pieces drawn add up to the idle time, and bars of a row do not overlap'(browser) {
    const page = await open(browser, file('train.html'));
    const result = await page.eval(`G.data.variants.map((run) => {
      const rows = G.timelineRows(run);
      let overlaps = 0;
      for (const row of rows) for (let i = 1; i < row.n; i++) if (row.start[i] < row.end[i - 1] - 1) overlaps++;
      let idle = 0;
      for (let i = 0; i < rows[0].n; i++) idle += rows[0].end[i] - rows[0].start[i];
      const stream = rows.filter((row) => row.kind === 'stream');
      return {overlaps, idle: idle / 1000, busy: run.figures.makespan_us - idle / 1000, window: run.figures['window.busy_us'], count: stream.reduce((sum, row) => sum + row.n, 0), ops: run.figures.gpu_ops};
    })`);
    for (const {overlaps, busy, window, count, ops} of result) {
      check(overlaps === 0, 'no bar overlaps another of its row');
      check(Math.abs(busy - window) < 0.01 * window, 'what is not idle is busy');
      check(count === ops, 'every GPU op has its bar');
    }
    await clean(page);
  },

  async 'Variants, themes, searches and sorting answer'(browser) {
    const page = await open(browser, file('train.html'), {dark: true});
    check(await page.eval('document.documentElement.dataset.theme') === 'dark', 'it is dark where the system is');
    await page.eval('document.querySelector("button.theme").click()');
    check(await page.eval('document.documentElement.dataset.theme') === 'light', 'and light when asked for');
    await page.eval(`[...document.querySelectorAll('.pills button')].find((button) => button.textContent === 'checkpoint').click()`);
    check(await page.eval('G.data.variants[G.shown].variant') === 'checkpoint', 'a click shows another variant');
    check(await page.eval('document.querySelectorAll(".pills button[aria-pressed=true]").length') === 1, 'one variant is chosen');
    check(await page.eval('G.charts.every((chart) => chart.box.isConnected)'), 'plots of the variant before are gone');
    const rows = () => page.eval('[...document.querySelectorAll("#kernels tbody tr")].map((row) => row.innerText)');
    await page.eval(`(() => { const input = document.querySelector('#kernels input[type=search]'); input.value = 'layer_norm'; input.dispatchEvent(new Event('input')); })()`);
    const found = await rows();
    check(found.length > 0 && found.every((row) => row.includes('layer_norm')), 'searching leaves the rows with the word');
    await page.eval('[...document.querySelectorAll("#kernels th button")].find((button) => button.textContent === "count").click()');
    check(await page.eval('document.querySelector("#kernels th[aria-sort]").innerText').then((head) => head.startsWith('count')), 'a click on a head sorts');
    await page.eval('for (const chart of G.charts) chart.make()');
    check(await page.eval('G.charts.length >= 4 && G.charts.every((chart) => chart.instance)'), 'every plot can be drawn');
    await clean(page);
  },

  async 'A compiled step has its groups, a captured one its timeline'(browser) {
    writeFileSync(file('compiled.yaml'), `name: compiled
hardware: h200
host: xeon-h200-cloud
workload: {network: gpt2, parameters: {layers: 2}, step: training, batch: 2, sequence: 256, optimizer: adamw_fused}
variants:
  compiled: {backend: inductor}
  overhead: {backend: inductor, mode: reduce-overhead}
`);
    run('run', file('compiled.yaml'), '--html', file('compiled.html'));
    const page = await open(browser, file('compiled.html'));
    const groups = await page.eval('document.querySelectorAll("#fusion tbody tr").length');
    check(groups > 5, 'the fusion table lists groups');
    check(await page.eval('G.data.variants[0].fusion.groups.some((group) => group.ops.length > 1 && group.eager > group.read + group.written)'), 'groups of several ops save traffic');
    await page.eval('G.show(1)');
    check(await page.eval('G.timelineRows(G.data.variants[1]).some((row) => row.kind === "stream" && row.n > 10)'), 'ops of CUDA graphs are in the timeline');
    await clean(page);
  },

  async 'Names cannot become markup or end the data'(browser) {
    const name = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2">&amp;<!--';
    writeFileSync(file('hostile.yaml'), `name: '${name}'
description: '${name}'
workload: {kernels: [{kernel: '${name}', duration: 30 us, launch: 6 us}, {kernel: 'ünïcödé 核', duration: 3 us, launch: 6 us}]}
`);
    run('run', file('hostile.yaml'), '--html', file('hostile.html'));
    const page = await open(browser, file('hostile.html'));
    await page.eval('for (const chart of G.charts) chart.make()');
    await page.eval('new Promise((done) => setTimeout(done, 100))');
    check(await page.eval('window.broken') === undefined, 'no script of a name runs');
    check(await page.eval('document.querySelectorAll("img").length') === 0, 'no element comes of a name');
    check(await page.eval('document.querySelector("h1").textContent') === name, 'the name is shown as it is');
    check(await page.eval('G.data.names.includes("ünïcödé 核")'), 'other scripts survive');
    await clean(page);
  },

  async 'A phone shows all of it without scrolling sideways, and paper too'(browser) {
    const page = await open(browser, file('train.html'), {width: 390, height: 844, mobile: true});
    await page.eval('for (const chart of G.charts) chart.make()');
    check(await page.eval('document.documentElement.scrollWidth') <= 390, 'no wider than the phone');
    const pdf = await page.pdf();
    check(pdf.subarray(0, 5).toString() === '%PDF-' && pdf.length > 50000, 'it prints');
    check(await page.eval('document.documentElement.dataset.theme') === 'light', 'printing leaves the theme as it was');
    await clean(page);
  },

  async 'A sweep is plotted over any of its columns'(browser) {
    run('sweep', join(source, 'scenarios/launch_bound_decode.yaml'), '--vary', 'workload.kernels.0.launch=1 us:7 us:2 us', '--vary', 'steps=1,2',
      '--out', file('sweep.csv'), '--html', file('sweep.html'));
    const page = await open(browser, file('sweep.html'));
    check(await page.eval('G.sweepState.choice.y.name') === 'step_time_us', 'first it shows step times');
    const points = await page.eval('G.sweepState.points().map((point) => [point.xv, point.yv])');
    check(points.length === await page.eval('G.data.rows_in_all'), 'every row is a point');
    const launch = 'workload.kernels.0.launch';
    await page.eval(`(() => { const select = document.querySelectorAll('select')[0]; select.value = '${launch}'; select.dispatchEvent(new Event('change')); })()`);
    check(await page.eval('G.sweepState.choice.x.unit') === 's', 'units are read');
    const xs = await page.eval('[...new Set(G.sweepState.points().map((point) => Math.round(point.xv * 1e7) / 10))].sort((a, b) => a - b)');
    check(JSON.stringify(xs) === '[1,3,5,7]', `launch costs of 1 to 7 us are where they belong: ${xs}`);
    await clean(page);
  },
};

const browser = await Browser.start(chromium);
let failed = 0;
try {
  for (const [claim, test] of Object.entries(tests)) {
    try {
      await test(browser);
      console.log(`ok      ${claim}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${claim}\n        ${error.message}`);
    }
  }
} finally {
  await browser.stop();
  rmSync(folder, {recursive: true, force: true});
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed (${checks} checks)`);
process.exit(failed ? 1 : 0);

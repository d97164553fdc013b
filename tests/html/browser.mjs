// SPDX-License-Identifier: Apache-2.0
// A page in headless Chromium, driven over its debugging pipe: needs Node and Chromium, no packages.
import {spawn, spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

/** The first Chromium that starts; null: there is none. */
export function findChromium() {
  for (const name of [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)) {
    if (spawnSync(name, ['--version'], {stdio: 'ignore'}).status === 0) return name;
  }
  return null;
}

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), 'gpusim-chromium-'));
    // Root in a container has no sandbox; what is opened are files of our own.
    browser.process = spawn(program, [
      '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe', '--disable-dev-shm-usage',
      '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions',
      `--user-data-dir=${browser.folder}`, 'about:blank'], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    browser.waiting = new Map();
    browser.listeners = [];
    browser.last = 0;
    let open = '';
    browser.process.stdio[4].on('data', (bytes) => {
      const parts = (open + bytes).split('\0');
      open = parts.pop();
      for (const part of parts) browser.received(JSON.parse(part));
    });
    return browser;
  }

  received(message) {
    if (message.id) {
      const {resolve, reject} = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message)); else resolve(message.result);
    } else {
      for (const listener of this.listeners) listener(message);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    return new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject}));
  }

  async page({width = 1280, height = 900, dark = false, mobile = false, scale = 1} = {}) {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, sessionId, targetId);
    await page.send('Page.enable');
    await page.send('Runtime.enable');
    await page.send('Log.enable');
    await page.send('Network.enable');
    await page.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: scale, mobile});
    await page.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
    return page;
  }

  async stop() {
    try {
      await this.send('Browser.close');
    } catch {
      this.process.kill();
    }
    await new Promise((resolve) => { this.process.on('exit', resolve); setTimeout(resolve, 3000); });
    rmSync(this.folder, {recursive: true, force: true, maxRetries: 5});
  }
}

class Page {
  constructor(browser, session, target) {
    Object.assign(this, {browser, session, target, errors: [], requests: []});
    browser.listeners.push((message) => {
      if (message.sessionId !== session) return;
      const {method, params} = message;
      if (method === 'Runtime.exceptionThrown') this.errors.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
      if (method === 'Log.entryAdded' && params.entry.level === 'error') this.errors.push(params.entry.text);
      if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type)) {
        this.errors.push(params.args.map((arg) => arg.value ?? arg.description).join(' '));
      }
      if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
      if (method === 'Page.loadEventFired' && this.loaded) this.loaded();
    });
  }

  send(method, params) { return this.browser.send(method, params, this.session); }

  async open(file) {
    const loaded = new Promise((resolve) => { this.loaded = resolve; });
    await this.send('Page.navigate', {url: `file://${file}`});
    await loaded;
  }

  /** The value of a JavaScript expression. */
  async eval(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description || exceptionDetails.text}`);
    return result.value;
  }

  /** Until `expression` is true. */
  async until(expression, what = expression, seconds = 20) {
    const end = Date.now() + 1000 * seconds;
    while (Date.now() < end) {
      if (await this.eval(`Boolean(${expression})`)) return;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    throw new Error(`waited in vain: ${what}`);
  }

  mouse(type, x, y, more = {}) { return this.send('Input.dispatchMouseEvent', {type, x, y, ...more}); }

  /** PNG of what is in view, of the whole page, or of one element. */
  async picture({whole = false, of} = {}) {
    let clip;
    if (of) {
      const box = await this.eval(`(() => { const b = document.querySelector('${of}').getBoundingClientRect();
        return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()`);
      clip = {...box, scale: 1};
    }
    if (whole) {
      const {cssContentSize} = await this.send('Page.getLayoutMetrics');
      clip = {x: 0, y: 0, width: cssContentSize.width, height: cssContentSize.height, scale: 1};
    }
    const {data} = await this.send('Page.captureScreenshot', {format: 'png', captureBeyondViewport: Boolean(clip), clip});
    return Buffer.from(data, 'base64');
  }

  async pdf() {
    const {data} = await this.send('Page.printToPDF', {printBackground: true, preferCSSPageSize: true});
    return Buffer.from(data, 'base64');
  }

  close() { return this.browser.send('Target.closeTarget', {targetId: this.target}); }
}

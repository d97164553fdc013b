// SPDX-License-Identifier: Apache-2.0
// node tests/html/pictures.mjs REPORT.html FOLDER: pictures of a report to look at: desktop in light and dark, a phone,
// and the printed pages as PDF.
import {mkdirSync, writeFileSync} from 'node:fs';
import {basename, join, resolve} from 'node:path';
import {Browser, findChromium} from './browser.mjs';

const [report, folder, ...only] = process.argv.slice(2);
mkdirSync(folder, {recursive: true});
const name = basename(report, '.html');
const browser = await Browser.start(findChromium());
const kinds = {
  light: {width: 1280, height: 900}, dark: {width: 1280, height: 900, dark: true},
  phone: {width: 390, height: 844, mobile: true, scale: 2}, print: {width: 1280, height: 900},
};
for (const [kind, options] of Object.entries(kinds)) {
  if (only.length && !only.includes(kind)) continue;
  const page = await browser.page(options);
  const begin = Date.now();
  await page.open(resolve(report));
  await page.eval('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  const opened = Date.now() - begin;
  if (kind === 'print') {
    writeFileSync(join(folder, `${name}.pdf`), await page.pdf());
  } else {
    writeFileSync(join(folder, `${name}.${kind}.first.png`), await page.picture());
    await page.eval('for (const chart of G.charts) chart.make()');
    await new Promise((done) => setTimeout(done, 300));
    writeFileSync(join(folder, `${name}.${kind}.png`), await page.picture({whole: true}));
    for (const id of await page.eval("[...document.querySelectorAll('section')].map((section) => section.id)")) {
      writeFileSync(join(folder, `${name}.${kind}.${id}.png`), await page.picture({of: `#${id}`}));
    }
  }
  console.log(`${kind}: opened in ${opened} ms`, page.errors.join('; '));
  await page.close();
}
await browser.stop();

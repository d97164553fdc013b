// SPDX-License-Identifier: Apache-2.0
// Tables that can be sorted and searched.
'use strict';

/**
 * `columns`: {title, value(row), cell(row), right, name}; `value` is what is sorted by, `cell` what is shown
 * (an element or a text; else the value). `search(row)`: the text that is searched; none: no search box.
 * `sort`: the column's place, largest first. `limit`: rows shown before "all".
 */
G.table = (parent, {columns, rows, search, sort, limit = 20, placeholder, what = 'rows', rowClass, onRow}) => {
  const state = {column: sort, descending: true, text: '', all: false};
  const body = G.el('tbody');
  const heads = columns.map((column, i) => {
    const label = column.value
      ? G.el('button', {onclick: () => {
        state.descending = state.column === i ? !state.descending : true;
        state.column = i;
        draw();
      }}, column.title)
      : column.title;
    return G.el('th', {class: column.right ? 'right' : null, scope: 'col', title: column.help}, label);
  });
  const more = G.el('button', {onclick: () => { state.all = !state.all; draw(); }});
  const count = G.el('span', {class: 'soft small'});
  const draw = () => {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = rows.filter((row) => !words.length || words.every((word) => search(row).toLowerCase().includes(word)));
    if (state.column !== undefined) {
      const value = columns[state.column].value;
      const sign = state.descending ? -1 : 1;
      shown = shown.map((row, i) => [row, i]).sort(([a, i], [b, j]) => {
        const x = value(a);
        const y = value(b);
        const order = typeof x === 'string' ? x.localeCompare(y) * -1 : (x ?? -Infinity) - (y ?? -Infinity);
        return sign * order || i - j;
      }).map(([row]) => row);
    }
    heads.forEach((head, i) => {
      if (i === state.column) head.setAttribute('aria-sort', state.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    const visible = state.all ? shown : shown.slice(0, limit);
    body.replaceChildren(...visible.map((row) => G.el('tr', {
      class: rowClass && rowClass(row), onclick: onRow && (() => onRow(row))},
    columns.map((column) => G.el('td', {class: [column.right && 'right', column.name && 'name'].filter(Boolean).join(' ') || null},
      column.name ? G.el('div', {class: 'clamp', title: column.value && column.value(row)}, column.cell ? column.cell(row) : column.value(row))
        : column.cell ? column.cell(row) : column.value(row))))));
    more.textContent = state.all ? 'Fewer' : `All ${shown.length}`;
    more.style.display = shown.length > limit ? '' : 'none';
    count.textContent = words.length ? `${shown.length} of ${rows.length} ${what}` : '';
  };
  const input = search && rows.length > 8 && G.el('input', {
    type: 'search', placeholder: placeholder || 'Search', 'aria-label': placeholder || 'Search',
    oninput: (event) => { state.text = event.target.value; draw(); }});
  if (input) parent.append(G.el('div', {class: 'tools'}, input, count));
  parent.append(G.el('div', {class: 'scroll'}, G.el('table', {}, G.el('thead', {}, G.el('tr', {}, heads)), body)),
    G.el('div', {class: 'tools'}, more));
  draw();
};

/** A share as a figure and a little bar, as long as the column is wide for the share `most`. */
G.shareCell = (share, colour, most = 1) => [G.percent(share), G.el('span', {class: 'sharebar wide-only'}, G.el('span', {
  class: 'share', style: {width: `${Math.max(1, Math.min(1, share / (most || 1)) * 52)}px`, backgroundColor: colour || 'var(--accent)'}}))];

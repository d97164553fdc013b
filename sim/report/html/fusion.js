// SPDX-License-Identifier: Apache-2.0
// What a compiler joined, what it did not join, and why.
'use strict';

G.fusion = (parent, run) => {
  const {fusion} = run;
  if (!fusion || !fusion.groups.length) return;
  const section = G.section('fusion', 'Fusion');
  parent.append(section);
  const moved = G.sumOf(fusion.groups.map((group) => group.read + group.written));
  const eager = G.sumOf(fusion.groups.map((group) => group.eager));
  section.append(G.el('p', {class: 'lead'}, `${fusion.backend}${fusion.mode !== 'default' ? `, ${fusion.mode}` : ''}: the kernels and calls of the step with the ops in each. Together they move `,
    G.el('b', {}, G.bytes(moved)), '; op by op it would be ', G.el('b', {}, G.bytes(eager)), '.',
    fusion.compile_s > 0 ? ` Compiling takes about ${G.number(fusion.compile_s)} s.` : ''));
  for (const cut of fusion.breaks) {
    section.append(G.el('div', {class: 'note alarm'}, G.el('b', {}, `Graph break after ${cut.after} (${cut.cause}): `), `${cut.effect} `, cut.remedy));
  }
  const regions = new Set(fusion.groups.map((group) => group.region)).size;
  const saved = (group) => group.eager - group.read - group.written;
  G.table(section, {
    rows: fusion.groups, sort: regions > 1 ? 5 : 4, limit: 15, what: 'groups', placeholder: 'Search kernels, ops, regions',
    search: (group) => `${group.region} ${group.kernel} ${group.ops.join(' ')}`,
    columns: [
      regions > 1 && {title: 'region', value: (group) => group.region},
      {title: 'kernel', name: true, value: (group) => group.kernel, cell: (group) => [group.kernel,
        G.el('div', {class: 'ops'}, group.ops.slice(0, 14).join(', '), group.ops.length > 14 ? ` and ${group.ops.length - 14} more` : '')]},
      {title: 'ops', right: true, value: (group) => group.ops.length},
      {title: 'times', right: true, value: (group) => group.count},
      {title: 'moves', right: true, help: 'Read and written by all of them', value: (group) => group.read + group.written, cell: (group) => G.bytes(group.read + group.written)},
      {title: 'saves', right: true, help: 'Of what the ops would move one by one', value: saved, cell: (group) => saved(group) > 0 ? G.bytes(saved(group)) : '–'},
    ].filter(Boolean)});
  if (fusion.refused.length) {
    section.append(G.el('h3', {}, 'Neighbours that were not joined'));
    G.table(section, {
      rows: fusion.refused, sort: 2, columns: [
        {title: 'why', name: true, value: (pair) => pair.reason, cell: (pair) => [pair.reason, G.el('div', {class: 'ops'}, `as ${pair.producer} and ${pair.consumer}`)]},
        {title: 'pairs', right: true, value: (pair) => pair.pairs},
        {title: 'through memory', right: true, value: (pair) => pair.bytes, cell: (pair) => G.bytes(pair.bytes)}]});
  }
  const passes = fusion.passes.filter((pass) => pass.ops_removed || pass.ops_added);
  if (passes.length) {
    section.append(G.el('h3', {}, 'Passes over the graph'));
    G.table(section, {rows: passes, columns: [
      {title: 'pass', name: true, cell: (pass) => [pass.pass, pass.examples.length ? G.el('div', {class: 'ops'}, `as ${pass.examples[0]}`) : null]},
      {title: 'ops out', right: true, cell: (pass) => String(pass.ops_removed)},
      {title: 'ops in', right: true, cell: (pass) => String(pass.ops_added)},
      {title: 'traffic saved', right: true, cell: (pass) => pass.saved_bytes > 0 ? G.bytes(pass.saved_bytes) : '–'}]});
  }
};

"""Reads rows.csv, what validation/measure/concurrency.cu wrote: one row per kernel of a case.

R: (group, case) -> its rows in the order of launch, as text; alone: short name -> the row of its first run alone.
"""
import csv
import pathlib

NAME_THREADS = 1024   # not said in a short name
NAME_FMA_WORK = 40000


def sh(kernel):
    """Short name, as overlap.make reads it: c/33/1024/536870912 -> c/33, f/8448/256/5000 -> f/8448t256:5000."""
    kind, blocks, threads, work, *shared_memory = kernel.split('/')
    name = f'{kind}/{blocks}'
    if int(threads) != NAME_THREADS:
        name += f't{threads}'
    if kind == 'x' or (kind == 'f' and int(work) != NAME_FMA_WORK):
        name += f':{work}'
    return '/'.join([name] + shared_memory)


R = {}
alone = {}
with open(pathlib.Path(__file__).parent / 'rows.csv', newline='') as file:
    for row in csv.DictReader(file):
        if row['group'].startswith('alone'):
            alone.setdefault(sh(row['kernel']), row)
        else:
            R.setdefault((row['group'], row['sid']), []).append(row)

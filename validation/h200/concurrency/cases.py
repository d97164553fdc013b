"""Prints tests/data/sharing_cases.csv: random kernels that arrive one after the other, and what overlap.py says of them."""
import random

import overlap

random.seed(20)
print('case,at_us,blocks,threads,registers,shared_memory,bytes,arithmetic,hidden,alone_us,start_us,end_us')
for case in range(40):
    kernels = []
    at = 0.0
    for i in range(random.choice([2, 2, 3])):
        threads = random.choice([128, 256, 384, 512, 1024])
        blocks = random.choice([random.randint(1, 132), 132 * random.randint(1, 8), random.randint(133, 4000),
                                random.randint(5000, 100000)])
        registers = random.choice([16, 32, 40, 64])
        shared = random.choice([0, 0, 0, 20000, 60000, 120000])
        alone = round(random.uniform(5, 400), 2)
        bytes_ = random.choice([0, int(alone * random.uniform(0.05, 0.99) * 4250e3 * min(1, blocks / 45))])
        arithmetic = random.choice([0, 0.1, 0.3, 0.7, 1])
        hidden = random.random() < 0.15
        kernels.append((at, blocks, threads, registers, shared, bytes_, arithmetic, hidden, alone))
        at = round(at + alone * random.choice([0.01, 0.2, 0.6, 0.9]), 2)
    ends = overlap.Sim(overlap.Machine()).run(
        [(k[0], overlap.Kernel('', k[1], k[2], k[8], k[5], k[6], k[4], k[3], k[7])) for k in kernels])
    for i, k in enumerate(kernels):
        print(case, *k[:7], int(k[7]), k[8], f'{ends[i][0]:.4f}', f'{ends[i][1]:.4f}', sep=',')

# SPDX-License-Identifier: Apache-2.0
"""validation/public/training.csv from fsdp.csv beside it: step times of one rank from published tokens per second.

usage: public_tables.py FOLDER

Rows in fp8 and compiled ones are left out: neither gathering weights in 8 bits nor compiled FSDP is modelled. So is the memory: torchtitan's is what the allocator reserved. MPT networks are GPT-2's with the sizes of llm-foundry's yamls
(scripts/train/yamls/pretrain), no biases, a vocabulary of 50,368.
"""
import csv
import os
import sys

#            layers, d_model, heads
MPT = {"mpt_760m": (24, 1536, 12), "mpt_1b": (24, 2048, 16), "mpt_3b": (32, 2560, 20), "mpt_7b": (32, 4096, 32), "mpt_13b": (40, 5120, 40),
       "mpt_30b": (48, 7168, 56), "mpt_70b": (80, 8192, 64)}
CHECKPOINTING = {"none": "none", "full": "blocks", "selective": "selective"}


def settings(row):
    if row["source"].startswith("torchtitan"):  # HBM2e of 2.4 TB/s, a limit of 500 W: by the same page
        yield "hardware.memory.bandwidth=2.4 TB/s"
        yield "hardware.power.limit=500 W"
    if row["network"] in MPT:
        layers, width, heads = MPT[row["network"]]
        yield "workload.network=gpt2"
        for key, value in (("layers", layers), ("d_model", width), ("heads", heads), ("vocab", 50368), ("context", row["sequence"]), ("bias", "false")):
            yield f"workload.parameters.{key}={value}"
    else:
        yield f"workload.network={row['network']}"
    yield f"workload.batch={row['micro_batch']}"
    yield f"workload.sequence={row['sequence']}"
    if row["accumulated"] != "1":
        yield f"workload.accumulation={row['accumulated']}"
    yield f"workload.checkpointing={CHECKPOINTING[row['checkpointing']]}"
    yield f"workload.parallel.data={row['gpus']}"
    if row["between_nodes"]:
        yield f"workload.parallel.interconnect.inter={row['between_nodes']}"


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "fsdp.csv")) as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    with open(os.path.join(folder, "training.csv"), "w") as file:
        print("# Published steps of FSDP training: gpusim validate validation/public/training.csv. Made by validation/measure/public_tables.py.", file=file)
        print("# step_us: of a whole step, from tokens per second and GPU.", file=file)
        print("case,scenario,variant,set,step_us", file=file)
        for row in rows:
            if row["precision"] != "bf16" or row["compile"] == "yes" or row["gpu"] != "h100_sxm":
                continue
            tokens = int(row["micro_batch"]) * int(row["sequence"]) * int(row["accumulated"])
            name = f"{row['network']} x{row['gpus']} T{row['sequence']} B{row['micro_batch']}x{row['accumulated']}/eager"
            print(name, "training.yaml", "", ";".join(settings(row)), f"{tokens / float(row['tokens_per_second_per_gpu']) * 1e6:.0f}", sep=",", file=file)


if __name__ == "__main__":
    main()

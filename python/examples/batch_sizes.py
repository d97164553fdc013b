# SPDX-License-Identifier: Apache-2.0
# A scenario as a dict: at which batch does decoding GPT-2 stop being launch-bound, and where does a CUDA graph help?
import gpusim

scenario = {
    "name": "GPT-2 decode",
    "hardware": "h200",
    "host": "xeon-h200-cloud",
    "workload": {"network": "gpt2", "step": "decode", "batch": 1, "sequence": 1024, "dtype": "bf16"},
    "variants": {"eager": {}, "cuda_graph": {"cuda_graph": "full"}},
}
columns = gpusim.sweep(scenario, {"workload.batch": [1, 8, 64, 512]},
                       columns=["step_time", "gpu_utilization", "regime", "tokens_per_second"])
try:
    import pandas
    print(pandas.DataFrame(columns).drop(columns=["point", "error"]).to_string(index=False))
except ImportError:
    for row in zip(*columns.values()):
        print(*row)

# SPDX-License-Identifier: Apache-2.0
# Step time against launch cost: beyond 3 us, the kernels' own duration, the step is launch-bound.
import gpusim
import matplotlib.pyplot as plt
launch = [0.5 * i for i in range(1, 21)]
steps = gpusim.sweep("scenarios/launch_bound_decode.yaml", {"workload.kernels.0.launch": [f"{us} us" for us in launch]},
                     variant="eager", columns="step_time")
plt.plot(launch, steps["step_time_us"], marker=".")
plt.xlabel("launch cost (us)")
plt.ylabel("step time (us)")
plt.savefig("launch_cost.png")
